#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The amount of work in open-ended tests: random histories, seeds, rounds. `TEST_SCALE=n` multiplies it by n.
/// `make test` uses 1, the default; `ci/steps/test --thorough` uses 5.
public enum TestScale {
    /// The scale, at least 1.
    public static let factor = max(1, environment("TEST_SCALE").map { Int(clamping: $0) } ?? 1)

    /// Whether this is the long form. Tests that otherwise pick a few cases then run them all.
    public static var isThorough: Bool { factor > 1 }

    /// `count` times the scale.
    public static func times(_ count: Int) -> Int { count.multipliedReportingOverflow(by: factor).partialValue }

    /// The size of a load or of a set of cases that is not random: `short` in `make test`, `long` in the long form.
    public static func size(_ short: Int, thorough long: Int) -> Int { self.isThorough ? long : short }

    /// `fixed` seeds that are the same each time, and one random seed for each unit of the scale.
    public static func seeds(fixed: Int) -> [UInt64] {
        var random = SeededRandom()
        // The fixed seeds are small numbers.
        return (0..<UInt64(max(fixed, 0))).map { $0 + 1 } + (0..<factor).map { _ in random.next() | 1 << 32 }
    }

    /// Lets other tests run. A test with a long computation calls this in its loop: all tests share one thread for each
    /// core, and a test with sockets and deadlines must not wait for seconds.
    public static func letOthersRun() async { await Task.yield() }

    /// A number from the environment, or nil if there is no number of this name.
    public static func environment(_ name: String) -> UInt64? {
        getenv(name).flatMap { UInt64(String(cString: $0)) }
    }
}
