import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Detects changes of small files by their contents. A change counts once two observations in a row agree, because a file
/// may be written in several steps.
struct FileChanges: Sendable {
    /// The digests of the files by their paths; nil for one that cannot be read.
    typealias Contents = [String: SHA256.Digest?]

    private var known: Contents
    private var candidate: Contents?

    init(_ known: Contents) {
        self.known = known
    }

    /// Reads files. Blocks.
    static func contents(of paths: [String]) -> Contents {
        var contents: Contents = [:]
        for path in paths {
            contents.updateValue(
                (try? Data(contentsOf: URL(fileURLWithPath: path))).map { SHA256.hash(data: $0) },
                forKey: path
            )
        }
        return contents
    }

    /// Returns whether the files have changed since the last change that this function has reported. The list of files may
    /// change, too, which is no change of a file.
    mutating func observe(_ contents: Contents) -> Bool {
        self.known = self.known.filter { contents[$0.key] != nil }.merging(contents) { known, _ in known }
        guard contents != self.known else {
            self.candidate = nil
            return false
        }
        guard contents == self.candidate else {
            self.candidate = contents
            return false
        }
        self.known = contents
        self.candidate = nil
        return true
    }
}
