@_spi(Relay) import APNSPool
import ArgumentParser

/// The results file, locked against a second `apns bulk`.
///
/// Rows are only appended during a run. A row that replaces an earlier one is written after it. At the end of a run, a
/// copy with only the last row of each line replaces the file atomically. A kill at any time therefore loses no row.
final class ResultFile: Sendable {
    let path: String
    let descriptor: Int32
    /// Whether it is a regular file, and not a pipe, a device or standard output. Only a regular file can be resumed.
    let isRegular: Bool

    init(path: String) throws {
        // The file itself, because its copy at the end would replace a symbolic link.
        let path = path == "-" ? path : OutputFile(path).path
        self.path = path
        if path == "-" {
            self.descriptor = 1
            self.isRegular = false
            return
        }
        self.isRegular = Files.isRegular(path) || !Files.exists(path)
        self.descriptor = try Files.openForAppending(path, reads: self.isRegular).orUsageError("--results", path)
        guard !self.isRegular || Files.lock(self.descriptor) else {
            throw UsageError("--results: another `apns bulk` is writing to '\(path)'.")
        }
    }

    deinit {
        if self.path != "-" { SystemFile.close(self.descriptor) }
    }

    /// Returns the path without symbolic links. Refuses a file that holds anything but rows.
    @discardableResult
    static func checked(_ path: String) throws -> String {
        try Files.checkedOutput(
            path,
            option: "--results",
            purpose: "rows of `apns bulk`",
            isOurs: RowScan.isBeginning
        )
    }

    func empty() throws {
        guard self.isRegular else { return }
        try self.check(Files.truncate(self.descriptor, to: 0))
    }

    /// Reads the existing rows, and removes a last row that a kill left incomplete.
    func earlier(resendsUnknown: Bool) throws -> (results: EarlierResults, isTorn: Bool) {
        let (results, end) = try Self.read(self.path, resendsUnknown: resendsUnknown)
        let isTorn = end.complete < end.total
        if isTorn { try self.check(Files.truncate(self.descriptor, to: end.complete)) }
        return (results, isTorn)
    }

    /// Reads the existing rows without a lock and without changing the file.
    static func readEarlier(path: String, resendsUnknown: Bool) throws -> EarlierResults {
        try self.read(path, resendsUnknown: resendsUnknown).results
    }

    private static func read(
        _ path: String,
        resendsUnknown: Bool
    ) throws -> (results: EarlierResults, end: (complete: Int, total: Int)) {
        var results = EarlierResults(resendsUnknown: resendsUnknown)
        let end = try self.forEachRow(of: path) { row throws(EarlierResults.Mistake) in try results.add(row) }
        return (results, end)
    }

    /// Keeps only the last row of each line. Either the whole change is made or none of it.
    func compact() throws {
        var left = LineTable<UInt32>(missing: 0)
        func number(of row: ArraySlice<UInt8>) throws(EarlierResults.Mistake) -> Int {
            guard let row = RowScan(row) else { throw EarlierResults.Mistake(description: "a row is damaged") }
            return row.line
        }
        _ = try Self.forEachRow(of: self.path) { row throws(EarlierResults.Mistake) in
            left[try number(of: row)] += 1
        }
        let copy = Files.copy(of: self.path)
        let target = try Files.create(copy).orUsageError("--results", copy)
        var isDone = false
        defer {
            SystemFile.close(target)
            if !isDone { Files.remove(copy) }
        }
        var buffer: [UInt8] = []
        var failure: SystemError?
        _ = try Self.forEachRow(of: self.path) { row throws(EarlierResults.Mistake) in
            let line = try number(of: row)
            left[line] -= 1
            guard left[line] == 0, failure == nil else { return }
            buffer.append(contentsOf: row)
            buffer.append(UInt8(ascii: "\n"))
            if buffer.count >= 256 * 1024 {
                failure = SystemFile.write(buffer, to: target)
                buffer.removeAll(keepingCapacity: true)
            }
        }
        try self.check(failure ?? SystemFile.write(buffer, to: target))
        try self.check(Files.copyMode(of: self.descriptor, to: target) ?? Files.synchronize(target))
        try self.check(Files.rename(copy, self.path))
        isDone = true
        Files.synchronizeFolder(of: self.path)
    }

    /// Returns once all written rows are on the disk.
    func synchronize() throws {
        guard self.isRegular else { return }
        try self.check(Files.synchronize(self.descriptor))
    }

    private func check(_ error: SystemError?) throws {
        guard let error else { return }
        throw InputOutputError(description: "--results: '\(self.path)' cannot be written: \(error)")
    }

    /// - Returns: the end of the last complete line, and the file.
    private static func forEachRow(
        of path: String,
        _ body: (ArraySlice<UInt8>) throws(EarlierResults.Mistake) -> Void
    ) throws -> (complete: Int, total: Int) {
        let descriptor = try Files.open(path).orUsageError("--results", path)
        defer { SystemFile.close(descriptor) }
        var pieces = LinePieces()
        var chunk = [UInt8](repeating: 0, count: 256 * 1024)
        do {
            while true {
                switch SystemFile.read(descriptor, into: &chunk) {
                case .failure(let error):
                    throw InputOutputError(description: "--results: '\(path)' cannot be read: \(error)")
                case .success(0):
                    return (pieces.complete, pieces.total)
                case .success(let count):
                    try pieces.add(chunk[..<count], body)
                }
            }
        } catch let mistake as EarlierResults.Mistake {
            throw UsageError("--results: '\(path)' cannot be resumed: \(mistake).")
        }
    }
}

/// Splits pieces of a file into lines. Pure.
struct LinePieces {
    /// The longest row, in bytes: far longer than any that the tool writes.
    private static let limit = 1024 * 1024

    private var rest: [UInt8] = []
    /// The number of bytes in complete lines, and in total.
    private(set) var complete = 0
    private(set) var total = 0

    mutating func add(
        _ bytes: ArraySlice<UInt8>,
        _ body: (ArraySlice<UInt8>) throws(EarlierResults.Mistake) -> Void
    ) throws(EarlierResults.Mistake) {
        self.total += bytes.count
        var bytes = bytes
        while let end = Files.firstLineEnd(in: bytes) {
            let line = bytes[..<end]
            if self.rest.isEmpty {
                try body(line)
                self.complete += line.count + 1
            } else {
                self.rest.append(contentsOf: line)
                try body(self.rest[...])
                self.complete += self.rest.count + 1
                self.rest.removeAll(keepingCapacity: true)
            }
            bytes = bytes[(end + 1)...]
        }
        self.rest.append(contentsOf: bytes)
        guard self.rest.count <= Self.limit else {
            throw EarlierResults.Mistake(description: "a line has more than \(Self.limit) bytes")
        }
    }
}
