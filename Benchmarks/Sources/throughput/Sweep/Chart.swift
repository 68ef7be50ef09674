/// A line chart, written as SVG.
struct Chart: Sendable {
    struct Series: Sendable {
        var name: String
        var points: [(x: Double, y: Double)]
    }

    var title: String
    var subtitle: String
    var xLabel: String
    var yLabel: String
    /// Logarithmic, with a tick at each measured value instead of at round ones.
    var isXLogarithmic = false
    var isYLogarithmic = false
    var series: [Series]

    // Okabe and Ito's colours: to be told apart also by the colour-blind.
    private static let colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
    private static let width = 800.0
    private static let height = 460.0
    private static let left = 84.0
    private static let right = 24.0
    private static let top = 96.0
    private static let bottom = 64.0

    private var plotWidth: Double { Self.width - Self.left - Self.right }
    private var plotHeight: Double { Self.height - Self.top - Self.bottom }

    var svg: String {
        let xs = series.flatMap { $0.points.map(\.x) }
        let ys = series.flatMap { $0.points.map(\.y) }
        let xAxis = isXLogarithmic ? Axis(valuesOnLogarithm: xs) : Axis(covering: xs)
        let yAxis = isYLogarithmic ? Axis(decadesCovering: ys) : Axis(covering: ys + [0])
        var body = ""
        body += text(title, Self.left, 30, size: 18, weight: "600")
        body += text(subtitle, Self.left, 50, size: 12, colour: "#57606a")
        body += legend()
        body += grid(xAxis, yAxis)
        for (index, one) in series.enumerated() {
            body += line(one, Self.colours[index % Self.colours.count], xAxis, yAxis)
        }
        // A white ground: pages may be dark.
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(number(Self.width)) \(number(Self.height))" \
            width="\(number(Self.width))" height="\(number(Self.height))" role="img" aria-label="\(escaped(title))" \
            font-family="-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif">
            <rect width="100%" height="100%" rx="6" fill="#ffffff"/>
            \(body)</svg>

            """
    }

    private func x(_ value: Double, _ axis: Axis) -> Double { Self.left + axis.position(value) * plotWidth }
    private func y(_ value: Double, _ axis: Axis) -> Double { Self.top + (1 - axis.position(value)) * plotHeight }

    private func grid(_ xAxis: Axis, _ yAxis: Axis) -> String {
        var grid = ""
        let base = Self.top + plotHeight
        for tick in yAxis.ticks {
            let place = y(tick, yAxis)
            grid += segment(Self.left, place, Self.left + plotWidth, place, "#e4e7eb")
            grid += text(Axis.label(tick), Self.left - 10, place + 4, size: 12, anchor: "end", colour: "#424a53")
        }
        for tick in xAxis.ticks {
            let place = x(tick, xAxis)
            grid += segment(place, base, place, base + 5, "#8c959f")
            grid += text(Axis.label(tick), place, base + 20, size: 12, anchor: "middle", colour: "#424a53")
        }
        grid += segment(Self.left, base, Self.left + plotWidth, base, "#8c959f")
        grid += text(xLabel, Self.left + plotWidth / 2, Self.height - 16, size: 13, anchor: "middle")
        let middle = Self.top + plotHeight / 2
        grid += """
            <text x="20" y="\(number(middle))" font-size="13" fill="#1f2328" text-anchor="middle" \
            transform="rotate(-90 20 \(number(middle)))">\(escaped(yLabel))</text>

            """
        return grid
    }

    private func legend() -> String {
        guard series.count > 1 else { return "" }
        var legend = ""
        var place = Self.left
        for (index, one) in series.enumerated() {
            let colour = Self.colours[index % Self.colours.count]
            legend += segment(place, 72, place + 22, 72, colour, width: 2.5)
            legend += dot(place + 11, 72, colour)
            legend += text(one.name, place + 28, 76, size: 12)
            // About the width of a letter.
            place += 28 + Double(one.name.count) * 6.8 + 22
        }
        return legend
    }

    private func line(_ series: Series, _ colour: String, _ xAxis: Axis, _ yAxis: Axis) -> String {
        let places = series.points.map { (x($0.x, xAxis), y($0.y, yAxis)) }
        let path = places.map { "\(number($0.0)),\(number($0.1))" }.joined(separator: " ")
        var line = """
            <polyline points="\(path)" fill="none" stroke="\(colour)" stroke-width="2.5" stroke-linejoin="round"/>

            """
        for (place, point) in zip(places, series.points) {
            let hint = "\(series.name): \(Axis.label(point.x)) \(xLabel), \(Axis.label(point.y)) \(yLabel)"
            line += dot(place.0, place.1, colour, hint: hint)
        }
        return line
    }

    private func dot(_ x: Double, _ y: Double, _ colour: String, hint: String? = nil) -> String {
        let title = hint.map { "<title>\(escaped($0))</title>" } ?? ""
        return """
            <circle cx="\(number(x))" cy="\(number(y))" r="4" fill="\(colour)" stroke="#ffffff">\(title)</circle>

            """
    }

    private func segment(
        _ x1: Double,
        _ y1: Double,
        _ x2: Double,
        _ y2: Double,
        _ colour: String,
        width: Double = 1
    ) -> String {
        """
        <line x1="\(number(x1))" y1="\(number(y1))" x2="\(number(x2))" y2="\(number(y2))" stroke="\(colour)" \
        stroke-width="\(number(width))"/>

        """
    }

    private func text(
        _ text: String,
        _ x: Double,
        _ y: Double,
        size: Int,
        anchor: String = "start",
        weight: String = "400",
        colour: String = "#1f2328"
    ) -> String {
        """
        <text x="\(number(x))" y="\(number(y))" font-size="\(size)" font-weight="\(weight)" fill="\(colour)" \
        text-anchor="\(anchor)">\(escaped(text))</text>

        """
    }

    private func number(_ value: Double) -> String { decimal(value, places: 1) }

    private func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing("\"", with: "&quot;")
    }
}
