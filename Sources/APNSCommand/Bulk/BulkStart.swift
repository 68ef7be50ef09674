@_spi(Relay) import APNSPool
import ArgumentParser

/// Opens the files of a run of `apns bulk`, and completes them at its end.
struct BulkStart: Sendable {
    let file: ResultFile
    /// The id from which the `apns-id` of each line is derived.
    let id: APNSID
    /// The results of earlier runs; nil for a new run.
    let earlier: EarlierResults?
    /// Messages for the user.
    let notes: [String]

    /// Opens the results, and empties them unless the run resumes them.
    init(_ run: BulkJobManifest, results: String, _ options: BulkFileOptions) throws {
        self.file = try ResultFile(path: results)
        let results = self.file.path
        let runFile = self.file.isRegular ? BulkManifestFile(results: results) : nil
        if options.resume, self.file.isRegular {
            let (earlier, isTorn) = try self.file.earlier(resendsUnknown: options.resendUnknown)
            var notes = isTorn ? ["The last row of '\(results)' was incomplete and was removed."] : []
            if let id = try Self.check(run, runFile, hasRows: earlier.rows > 0, results) {
                notes.append("Resuming: \(earlier.done == 1 ? "1 line is" : "\(earlier.done) lines are") done.")
                (self.id, self.earlier, self.notes) = (id, earlier, notes)
                return
            }
        }
        // In this order, a kill in between never leaves old rows that look like rows of the new run.
        runFile?.remove()
        try self.file.empty()
        try runFile?.write(run)
        (self.id, self.earlier, self.notes) = (APNSID(run.run) ?? .random(), nil, [])
    }

    /// The results of earlier runs, read without changing a file; nil if there are none.
    static func readEarlier(_ run: BulkJobManifest, results: String, _ options: BulkFileOptions) throws
        -> EarlierResults?
    {
        let results = OutputFile(results).path
        guard Files.exists(results) else { return nil }
        let earlier = try ResultFile.readEarlier(path: results, resendsUnknown: options.resendUnknown)
        let file = BulkManifestFile(results: results)
        return try self.check(run, file, hasRows: earlier.rows > 0, results) == nil ? nil : earlier
    }

    /// The id of the run to which the results belong; nil if they belong to none yet.
    private static func check(_ run: BulkJobManifest, _ file: BulkManifestFile?, hasRows: Bool, _ results: String)
        throws -> APNSID?
    {
        guard let file, let (earlier, id) = try file.read() else {
            guard !hasRows else {
                throw UsageError(
                    "--resume: '\(results).run' is missing. It identifies the run of '\(results)'; without it, no push "
                        + "can be resent with the same apns-id."
                )
            }
            return nil
        }
        if let difference = run.difference(from: earlier) {
            throw UsageError("\(difference). Give the input of that run, or begin a new run with other --results.")
        }
        return id
    }

    /// - Parameter hasReplaced: whether the run wrote rows for lines that already had one.
    /// - Returns: the errors.
    func finish(hasReplaced: Bool) -> [InputOutputError] {
        guard self.file.isRegular else { return [] }
        do {
            try self.file.synchronize()
            if hasReplaced || self.earlier?.hasSuperseded == true { try self.file.compact() }
            return []
        } catch let error as InputOutputError {
            return [error]
        } catch {
            return [InputOutputError(description: "\(error)")]
        }
    }
}
