public import Foundation

/// The fenced code blocks of Markdown pages.
public enum DocumentedCode {
    /// A block and its page.
    public struct Block: Sendable, CustomStringConvertible {
        public let page: String
        public let text: String

        public var description: String { "\(self.page): \(self.text.prefix(60))" }
    }

    /// The blocks of one language in the pages of a folder, or in one page, in their order.
    ///
    /// - Parameters:
    ///   - path: the folder or page, relative to the root of the repository.
    ///   - language: the language named after the fence.
    public static func blocks(in path: String, language: String) throws -> [Block] {
        let url = self.root.appendingPathComponent(path)
        var pages = [url]
        if url.hasDirectoryPath || path.hasSuffix(".docc") {
            pages = try FileManager.default.contentsOfDirectory(atPath: url.path).filter { $0.hasSuffix(".md") }
                .sorted()
                .map { url.appendingPathComponent($0) }
        }
        return try pages.flatMap { page in
            try String(contentsOf: page, encoding: .utf8).components(separatedBy: "```\(language)\n").dropFirst()
                .map { Block(page: page.lastPathComponent, text: $0.components(separatedBy: "```")[0]) }
        }
    }

    /// The root of the repository.
    public static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
}
