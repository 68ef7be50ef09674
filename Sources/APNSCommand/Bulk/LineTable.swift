/// A value for each line of a file. Lines are stored in pages, so that a damaged row with a huge line number needs
/// memory for one page, and at most 4 MiB for the list of pages.
struct LineTable<Value: Sendable>: Sendable {
    /// Lines in a page.
    private static var pageSize: Int { 4096 }

    private let missing: Value
    /// By line divided by `pageSize`; empty for a page without values.
    private var pages: [[Value]] = []

    /// - Parameter missing: The value of lines that were not set.
    init(missing: Value) {
        self.missing = missing
    }

    /// The value of a line, from 0.
    subscript(line: Int) -> Value {
        get {
            let (number, place) = line.quotientAndRemainder(dividingBy: Self.pageSize)
            guard line >= 0, number < self.pages.count, !self.pages[number].isEmpty else { return self.missing }
            return self.pages[number][place]
        }
        set {
            let (number, place) = line.quotientAndRemainder(dividingBy: Self.pageSize)
            if number >= self.pages.count {
                self.pages.append(contentsOf: repeatElement([], count: number + 1 - self.pages.count))
            }
            if self.pages[number].isEmpty {
                self.pages[number] = [Value](repeating: self.missing, count: Self.pageSize)
            }
            self.pages[number][place] = newValue
        }
    }

    /// All values in pages that have any, including `missing` ones.
    var values: some Sequence<Value> { self.pages.lazy.joined() }
}
