/// Client and server on a core of their own where there are two: else they take the core from one another, and who wins
/// differs from run to run.
enum Cores {
    static let client = canPin ? 0 : nil
    static let server = canPin ? 1 : nil

    private static let canPin = ChildProcess.status(of: ["taskset", "-c", "0,1", "true"]) == 0
}
