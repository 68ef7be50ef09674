#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// How much the tests do whose work has no natural end: random histories, seeds, rounds. `TEST_SCALE=n` makes it n times
/// as much; 1, the default, is what each change runs, and `make test-thorough` runs the long form.
public enum TestScale {
    /// 1 or more.
    public static let factor = max(1, environment("TEST_SCALE").map { Int(clamping: $0) } ?? 1)

    /// Whether this is the long form: what is drawn by lot otherwise runs as a whole.
    public static var isThorough: Bool { factor > 1 }

    /// So many times `count`.
    public static func times(_ count: Int) -> Int { count.multipliedReportingOverflow(by: factor).partialValue }

    /// The same seeds each time, which found something once or might have, and as many random ones as the scale says.
    public static func seeds(fixed: Int) -> [UInt64] {
        var random = SeededRandom()
        // The fixed ones are small numbers.
        return (1...UInt64(max(fixed, 1))).map { $0 } + (0..<factor).map { _ in random.next() | 1 << 32 }
    }

    /// A number from the environment; nil: there is none of the name.
    public static func environment(_ name: String) -> UInt64? {
        getenv(name).flatMap { UInt64(String(cString: $0)) }
    }
}
