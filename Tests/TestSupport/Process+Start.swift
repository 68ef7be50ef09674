package import Foundation

// Pipes are made and programs are started one at a time. Foundation lists the open files of this process, and the program
// that it starts closes those. What another thread opens after the listing stays open in the program. A test that reads such
// a pipe to its end would wait until that program ends, and so would one that waits for the end of another program.
private let starting = NSLock()

extension Process {
    /// Starts the program, as `run()` does.
    package func start() throws { try starting.withLock { try self.run() } }
}

extension Pipe {
    /// A pipe that no program gets by mistake.
    package static func make() -> Pipe { starting.withLock { Pipe() } }
}
