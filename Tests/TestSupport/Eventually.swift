/// Evaluates a condition until it is true, for at most thirty seconds.
public func eventually(_ condition: () throws -> Bool) async throws -> Bool {
    for _ in 0..<3000 {
        if try condition() { return true }
        try await Task.sleep(for: .milliseconds(10))
    }
    return false
}
