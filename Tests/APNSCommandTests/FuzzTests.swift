import APNSModel
import TestSupport
import Testing

@testable import APNSCommand

/// Bytes that a fuzzer chooses, instead of those of a results file.
struct FuzzTests {
    @Test("A results file to resume is read, or the error names the line") func fuzzResultsFile() throws {
        try Fuzz.run("results-file") { bytes in
            var results = EarlierResults(resendsUnknown: (bytes.first ?? 0) & 1 == 1)
            do throws(EarlierResults.Mistake) {
                for line in bytes.dropFirst().split(separator: 0x0A, omittingEmptySubsequences: false) {
                    try results.add(line)
                }
            } catch {
                #expect(error.description.hasPrefix("line \(results.rows) "))
            }
            let counted = results.counts.reduce(0) { $0 + $1.count }
            #expect(counted <= results.rows && results.done <= counted)
        }
    }
}
