import APNSSimulator
import Dispatch

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// `throughput --serve`: the simulator until standard input ends.
enum Server {
    static func serve() async throws {
        fatalError()
    }
}
