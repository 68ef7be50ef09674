#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// How much tests do that could go on for ever: random histories, seeds, rounds. `TEST_SCALE=n` makes it n times as much.
/// `make test` runs 1, the default; `make test-thorough` runs 10.
public enum TestScale {
    /// 1 or more.
    public static let factor = max(1, environment("TEST_SCALE").map { Int(clamping: $0) } ?? 1)

    /// Whether this is the long form. Tests that otherwise pick a few cases then run them all.
    public static var isThorough: Bool { factor > 1 }

    /// So many times `count`.
    public static func times(_ count: Int) -> Int { count.multipliedReportingOverflow(by: factor).partialValue }

    /// The size of a load or of a set of cases that is not random: `short` in `make test`, `long` in the long form.
    public static func size(_ short: Int, thorough long: Int) -> Int { self.isThorough ? long : short }

    /// Some seeds that are the same each time, and as many random ones as the scale says.
    public static func seeds(fixed: Int) -> [UInt64] {
        var random = SeededRandom()
        // The fixed ones are small numbers.
        return (0..<UInt64(max(fixed, 0))).map { $0 + 1 } + (0..<factor).map { _ in random.next() | 1 << 32 }
    }

    /// Lets other tests run. A test that computes for long calls this in its loop: all tests share as few threads as the
    /// machine has cores, and a test with sockets and deadlines must not wait for seconds.
    public static func letOthersRun() async { await Task.yield() }

    /// A number from the environment; nil: there is none of the name.
    public static func environment(_ name: String) -> UInt64? {
        getenv(name).flatMap { UInt64(String(cString: $0)) }
    }
}
