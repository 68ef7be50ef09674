import Dispatch

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// `MicroBenchmarks NAME COUNT` runs one part of the hot path so many times; without arguments it lists the names
/// and the counts with which starting up does not blur the figure.
///
/// It measures nothing itself: `make bench-instructions` runs it under valgrind with two counts and divides the
/// difference. The target is in the package only while `MICRO_BENCHMARKS` is set, and needs `-enable-testing`, since
/// what it calls is internal.
@main
enum MicroBenchmarks {
    static func main() {
        let arguments = CommandLine.arguments.dropFirst()
        guard !arguments.isEmpty else {
            for benchmark in Benchmark.all { print(benchmark.name, benchmark.count) }
            return
        }
        guard arguments.count == 2, let name = arguments.first, let count = arguments.last.flatMap({ Int($0) }),
            count > 0, let benchmark = Benchmark.all.first(where: { $0.name == name })
        else {
            print("usage: MicroBenchmarks [NAME COUNT], NAME one of those printed without arguments, COUNT above 0")
            exit(64)
        }
        // Not an async main: it turns the main thread into libdispatch's signal thread, which valgrind cannot run.
        let done = DispatchSemaphore(value: 0)
        Task.detached {
            do {
                // Printed, so that no work can be left out as unused.
                print(name, count, try await benchmark.run(count))
            } catch {
                print("\(name): \(error)")
                exit(1)
            }
            done.signal()
        }
        done.wait()
    }
}
