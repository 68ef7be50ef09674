import APNSPool
import Foundation
import Testing

/// The pages in `Docs` agree with the sources: examples compile; named tests, files and Makefile targets exist.
struct GuideTests {
    /// A Markdown page with its path from the root.
    struct Page: CustomTestStringConvertible, Sendable {
        let path: String
        let text: String

        var testDescription: String { self.path }
        var name: String { URL(fileURLWithPath: self.path).lastPathComponent }
        var lines: [String] { self.text.components(separatedBy: "\n") }
    }

    private struct Block {
        var info: String
        var lines: [String]
        /// The line before it.
        var before: String
    }

    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// All pages in `Docs`, which has no pages in subfolders.
    private static let docs: [Page] = {
        let names =
            (try? FileManager.default.contentsOfDirectory(atPath: root.appendingPathComponent("Docs").path)) ?? []
        return names.filter { $0.hasSuffix(".md") }.sorted().compactMap { page("Docs/\($0)") }
    }()
    private static let pages = docs + ["README.md", "CONTRIBUTING.md", "SECURITY.md"].compactMap(page)

    private static func page(_ path: String) -> Page? {
        (try? String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)).map { Page(path: path, text: $0) }
    }

    /// The sources of the tests, and those of the example service, which `make example` compiles.
    private static let tests = sources(in: "Tests")
    private static let compiled =
        tests + sources(in: "Docs/Examples/NotificationService/Sources")
        + sources(in: "Docs/Examples/NotificationService/Tests")

    /// The Swift files of a folder: paths from the root, and lines without their indentation.
    private static func sources(in folder: String) -> [(path: String, lines: [String])] {
        let url = root.appendingPathComponent(folder)
        let paths = FileManager.default.enumerator(atPath: url.path)?.compactMap { $0 as? String } ?? []
        return paths.filter { $0.hasSuffix(".swift") }.compactMap { path in
            guard let text = try? String(contentsOf: url.appendingPathComponent(path), encoding: .utf8) else {
                return nil
            }
            return ("\(folder)/\(path)", trimmed(text.components(separatedBy: "\n")))
        }
    }

    private static func trimmed(_ lines: [String]) -> [String] {
        lines.map { $0.trimmingCharacters(in: .whitespaces) }
    }

    private static func blocks(of page: Page) -> [Block] {
        var blocks: [Block] = []
        var open: Block?
        var before = ""
        for line in page.lines {
            if line.hasPrefix("```") {
                if let block = open {
                    blocks.append(block)
                    open = nil
                } else {
                    open = Block(info: String(line.dropFirst(3)), lines: [], before: before)
                }
            } else {
                open?.lines.append(line)
            }
            before = line
        }
        return blocks
    }

    /// The texts between backquotes, outside blocks.
    private static func words(of page: Page) -> [String] {
        var isInBlock = false
        var paragraphs = [""]
        for line in page.lines {
            if line.hasPrefix("```") { isInBlock.toggle() }
            if isInBlock || line.isEmpty {
                paragraphs.append("")
            } else if !line.hasPrefix("```") {
                paragraphs[paragraphs.count - 1] += line + "\n"
            }
        }
        return paragraphs.flatMap { paragraph in
            paragraph.components(separatedBy: "`").enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
        }
    }

    private static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appendingPathComponent(path).path)
    }

    /// Whether the lines of a block occur in a compiled file, in order.
    private static func isCompiled(_ block: Block) -> Bool {
        let wanted = trimmed(block.lines.filter { !$0.hasPrefix("import ") && !$0.hasPrefix("@testable import ") })
            .drop { $0.isEmpty }
        guard let first = wanted.first else { return false }
        return compiled.contains { file in
            file.lines.indices.contains { start in
                file.lines[start] == first && file.lines[start...].starts(with: wanted)
            }
        }
    }

    // MARK: Blocks

    @Test(arguments: docs) func everySwiftBlockIsCompiled(page: Page) throws {
        let script = try String(contentsOf: Self.root.appendingPathComponent(".ci/readme"), encoding: .utf8)
        let list = try #require(script.components(separatedBy: "PAGES=(").dropFirst().first)
        let pagesOfTheScript = list.prefix { $0 != ")" }.split(separator: " ")
        #expect(pagesOfTheScript.count == 2)
        for block in Self.blocks(of: page) where block.info.lowercased().hasPrefix("swift") {
            if block.before.hasPrefix("<!-- not compiled:") {
                // Neither Vapor nor swift-aws-lambda-runtime is a dependency.
                #expect(["Vapor.md", "Lambda.md"].contains(page.name))
            } else if pagesOfTheScript.contains(where: { $0 == page.path }) {
                #expect(block.info == "swift")
            } else {
                #expect(block.info == "swift")
                #expect(Self.isCompiled(block), "\(page.path): \(block.lines.first ?? "")")
            }
        }
    }

    @Test func blocksAreFoundAndUnknownCodeIsNot() {
        let blocks = Self.docs.flatMap(Self.blocks).filter { $0.info == "swift" }
        #expect(blocks.count >= 10)
        #expect(!Self.isCompiled(Block(info: "swift", lines: ["let nowhere" + " = 42"], before: "")))
    }

    /// A Swift block with another language name would not be checked.
    @Test(arguments: pages) func swiftBlocksAreMarkedAsSwift(page: Page) {
        let words = ["import APNS", "let ", "var ", "func ", "struct ", "try await "]
        for block in Self.blocks(of: page) where !block.info.lowercased().hasPrefix("swift") {
            for line in block.lines { #expect(!words.contains { line.hasPrefix($0) }, "\(page.path): \(line)") }
        }
    }

    // MARK: Names on the pages

    @Test(arguments: pages) func namedTestsExist(page: Page) {
        for word in Self.words(of: page) {
            let parts = word.components(separatedBy: ".")
            guard parts.count == 2, parts[0].hasSuffix("Tests"), parts[0].allSatisfy({ $0.isLetter || $0.isNumber })
            else { continue }
            let files = Self.tests.filter { $0.path.hasSuffix("/\(parts[0]).swift") }
            #expect(!files.isEmpty, "\(page.path): \(word)")
            if parts[1] == "swift" { continue }
            let declares = files.contains { file in
                file.lines.contains { $0.contains("func \(parts[1])(") } && file.lines.contains { $0.contains("@Test") }
            }
            #expect(declares, "\(page.path): \(word)")
        }
    }

    @Test func reliabilityNamesATestForEachFault() throws {
        let page = try #require(Self.docs.first { $0.name == "Reliability.md" })
        let rows = page.lines.filter { $0.hasPrefix("| ") && !$0.hasPrefix("| fault") }
        #expect(rows.count >= 40)
        for row in rows { #expect(row.contains("Tests."), "\(row)") }
    }

    @Test(arguments: pages) func namedFilesExist(page: Page) {
        let targets = [
            "APNSModel", "APNSPool", "APNSSealing", "APNSSimulator", "APNSDevices", "HTTP2Wire", "SupervisedPool",
        ]
        for word in Self.words(of: page) where !word.contains("…") && !word.contains("*") && !word.contains(" ") {
            // The line before a block names the file in the reader's package.
            if page.text.contains("\n`\(word)`:\n\n") { continue }
            if word.hasPrefix("Sources/") || word.hasPrefix("Tests/") || word.hasPrefix(".ci/") {
                #expect(Self.exists(word), "\(page.path): \(word)")
            } else if targets.contains(where: { word.hasPrefix("\($0)/") }) {
                #expect(Self.exists("Sources/\(word)"), "\(page.path): \(word)")
            }
        }
    }

    @Test(arguments: pages) func namedTargetsOfTheMakefileExist(page: Page) throws {
        let makefile = try String(contentsOf: Self.root.appendingPathComponent("Makefile"), encoding: .utf8)
        for word in Self.words(of: page) where word.contains("make ") {
            let target = word.components(separatedBy: "make ")[1].prefix { $0.isLowercase || $0.isNumber || $0 == "-" }
            #expect(makefile.contains("\n\(target):"), "\(page.path): \(word)")
        }
    }

    @Test func theIndexListsEveryPage() throws {
        let index = try #require(Self.docs.first { $0.name == "README.md" })
        for page in Self.docs where page.name != "README.md" {
            #expect(index.text.contains("](\(page.name))"), "Docs/README.md does not list \(page.name)")
        }
    }

    // MARK: Single statements

    /// `Docs/Migrating.md`: both packages in one program.
    @Test func moduleNamesDifferFromThoseOfAPNSwift() throws {
        let manifest = try String(contentsOf: Self.root.appendingPathComponent("Package.swift"), encoding: .utf8)
        let names = manifest.components(separatedBy: "name: \"").dropFirst().map { $0.components(separatedBy: "\"")[0] }
        #expect(names.contains("APNSPool"))
        for theirs in ["APNS", "APNSCore", "APNSURLSession", "APNSTestServer", "APNSExample", "VaporAPNS"] {
            #expect(!names.contains(theirs))
        }
    }

    /// `Docs/Deploying.md`: the grace period of a pod is long enough for the client's default drain.
    @Test func theGracePeriodIsLongerThanTheDrain() throws {
        let page = try #require(Self.docs.first { $0.name == "Deploying.md" })
        func number(after key: String) throws -> Int {
            let piece = try #require(page.text.components(separatedBy: key).dropFirst().first)
            return try #require(Int(piece.drop { !$0.isNumber }.prefix { $0.isNumber }))
        }
        let grace = try number(after: "\n      terminationGracePeriodSeconds: ")
        let preStop = try number(after: "command: [\"sleep\", \"")
        let drain = Int(APNSClientConfiguration.Timeouts().drain.components.seconds)
        #expect(drain == 20)
        #expect(preStop + drain + 1 < grace)
    }
}
