import ArgumentParser

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// All sweeps, and the page that shows them.
struct Page: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Runs all sweeps and writes Benchmarks.md with its charts."
    )

    @Option(help: ArgumentHelp("Where Benchmarks.md and images/ are written.", valueName: "DIRECTORY"))
    var output = "."

    @Option(help: ArgumentHelp("Where the figures are written as JSON.", valueName: "DIRECTORY"))
    var figures = "."

    @Option(help: ArgumentHelp("The table of the comparison with h2load, to be shown.", valueName: "FILE"))
    var comparison: String?

    @Option(help: ArgumentHelp("The table of the goals, to be shown.", valueName: "FILE"))
    var goals: String?

    @Option(help: ArgumentHelp("The table of the instructions, to be shown.", valueName: "FILE"))
    var instructions: String?

    @Option(help: ArgumentHelp("About how long each run may take.", valueName: "SECONDS"))
    var seconds = 2.0

    func validate() throws {
        guard (0.01...60).contains(seconds) else { throw ValidationError("--seconds must be 0.01 to 60") }
    }

    func run() throws {
        // Read before minutes are spent.
        let tables = try [
            table("CPU per push beside h2load", Self.comparisonText, comparison),
            table("Further goals", Self.goalsText, goals),
            table("Instructions", Self.instructionsText, instructions),
        ].joined()
        var charts = ""
        for kind in SweepKind.allCases {
            let plan = try SweepRunner(seconds: seconds).run(kind, jsonTo: figures, svgTo: "\(output)/images")
            for drawing in plan.drawings {
                charts += "\n![\(drawing.title): \(plan.subtitle)](images/\(kind.rawValue)\(drawing.suffix).svg)\n"
            }
            if !plan.note.isEmpty { charts += "\n\(plan.note)\n" }
        }
        let page = """
            # Benchmarks

            This page has the measurements of the library, for those who compare it or tune it. `Benchmarks/report.sh` \
            writes this page. \(machine)

            **Compare ratios, not times.** Times differ between machines, and between hours on one machine. Figures \
            that were measured side by side in the same minutes can be compared. Client and server run on the same \
            machine, so the throughput is what the client can send, not what APNs accepts.
            \(tables)
            ## Charts
            \(charts)
            """
        try Data(page.utf8).write(to: URL(filePath: "\(output)/Benchmarks.md"))
    }

    private static let comparisonText = """
        The table compares the library with two programs. h2load is nghttp2's own load tool: it does no more than the \
        protocol needs, and sends the same apns-id with every push. `floor` is the least that a correct client over \
        nghttp2 and OpenSSL can cost: some 250 lines of C (`Benchmarks/floor.c`), one connection, a path and an \
        apns-id of its own for each push, whole TLS records. Both let nghttp2 compress the header fields; the library \
        does it by itself, which is cheaper. All send to the same server, in turns, client and server on a core each. \
        The lowest figure of each program counts, because a disturbance can only add to it. `must be` is the limit for \
        the ratio to the floor, above which `make bench` fails. Single pushes depend most on the machine: the memory \
        of hundreds of waiting tasks does not fit into a core's own cache, and the core shares the next larger cache \
        with other cores.
        """

    private static let goalsText = """
        Each goal is measured in processes of its own; peak memory is that of the whole process. Most of an idle \
        pool's resident set are pages of the program's and the libraries' files (Swift, Foundation, OpenSSL). \
        Processes share these pages, and the system maps sixteen pages when a process touches one. For the latency at \
        half load, the run with the lowest p99 of seven counts (of up to 21 while the goal is missed). In the \
        comparison with curl, the time until `main` is that in which the system loads Swift's libraries. About a \
        third of the time from `main` until the client is connected goes into looking for the machine's trust roots. \
        curl does not look for them, because `--cacert` names its only root.
        """

    private static let instructionsText = """
        Valgrind counts the instructions. The counts hardly differ from run to run, so `make bench-instructions` fails \
        if a count is more than three percent above its limit.
        """

    private func table(_ title: String, _ text: String, _ path: String?) throws -> String {
        guard let path else { return "" }
        var rows = try String(contentsOfFile: path, encoding: .utf8)
        while rows.last?.isWhitespace == true { rows.removeLast() }
        return "\n## \(title)\n\n\(text)\n\n```text\n\(rows)\n```\n"
    }

    /// The class of the machine, not its name.
    private var machine: String {
        var system = utsname()
        uname(&system)
        let architecture = withUnsafeBytes(of: &system.machine) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
        let cores = sysconf(CInt(_SC_NPROCESSORS_ONLN))
        #if os(Linux)
            let name = "Linux"
        #else
            let name = "macOS"
        #endif
        let day = Date().formatted(.iso8601.year().month().day())
        let model = Self.processor.map { " (\($0))" } ?? ""
        return "The figures below are of \(day), on \(cores) cores of \(architecture)\(model) under \(name)."
    }

    /// The processor's name as Linux tells it.
    private static var processor: String? {
        guard let text = try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("model name") }),
            let colon = line.firstIndex(of: ":")
        else { return nil }
        let name = line[line.index(after: colon)...].drop { $0 == " " }
        return name.isEmpty || name == "unknown" ? nil : String(name)
    }
}
