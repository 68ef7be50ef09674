import APNSModel
import HTTPTypes
import Hummingbird
import NIOCore
import PushQueue
import ServiceLifecycle

/// Stores the devices of one request. The memory that it needs does not grow with their number.
struct BatchUpload {
    /// The number of devices that are stored in one call, and the most bytes of them.
    private static let part = 1_000
    static let partBytes = 1 << 20
    /// The most faults that a response lists.
    private static let listedFaults = 100

    let batch: Batch
    let store: BatchStore
    let intake: PushIntake
    let clock: any QueueClock
    let caller: Caller
    /// Whether to continue after invalid lines.
    let isPartial: Bool
    private let parser: BatchIntake
    /// Whether the batch was complete before this request.
    let isDuplicate: Bool
    /// The batch as earlier requests have stored it.
    private var known: BatchState
    /// The bytes of the next part.
    private var bytes = 0
    /// The invalid lines of the next part.
    private var newlyInvalid = 0
    private var line = 0
    private var checksum = LineChecksum()
    private var pushes: [NewPush] = []
    private(set) var stored = 0
    /// The first invalid lines.
    private(set) var faults: [PushFault] = []

    init(
        batch: Batch,
        state: BatchState,
        store: BatchStore,
        intake: PushIntake,
        clock: any QueueClock,
        caller: Caller,
        isPartial: Bool
    ) throws(PushFault) {
        self.batch = batch
        self.store = store
        self.intake = intake
        self.clock = clock
        self.caller = caller
        self.isPartial = isPartial
        self.parser = try BatchIntake(batch)
        self.isDuplicate = state.isComplete
        self.known = state
    }

    /// Adds the next device. Stores a part if one is complete.
    ///
    /// - Parameters:
    ///   - text: the device.
    ///   - position: where it stands in the request, for faults.
    mutating func add(_ text: ArraySlice<UInt8>, at position: Int) async throws {
        let before = self.checksum
        self.line += 1
        self.checksum.add(text)
        try self.checkLines()
        guard self.line > self.known.lines else { return }
        let (parser, line) = (self.parser, self.line)
        do throws(PushFault) {
            let push = try text.withUnsafeBufferPointer { (bytes) throws(PushFault) in
                try parser.push(bytes, number: line)
            }
            self.pushes.append(push)
            self.bytes += text.count
        } catch {
            var fault = error
            fault.line = position
            guard self.isPartial else {
                // So that the next request begins here.
                self.line -= 1
                self.checksum = before
                try await self.storePart()
                throw APIError(fault)
            }
            self.newlyInvalid += 1
            if self.faults.count < Self.listedFaults { self.faults.append(fault) }
        }
        if self.pushes.count >= Self.part || self.bytes >= Self.partBytes { try await self.storePart() }
    }

    /// Stores the rest, and starts the batch.
    mutating func finish() async throws {
        guard self.line >= self.known.lines else { throw self.otherLines }
        try await self.storePart()
        try await self.store.calling { store throws(QueueError) in
            try await store.change(self.batch.id) { $0.isComplete = true }
        }
    }

    private mutating func storePart() async throws {
        let (line, checksum) = (self.line, self.checksum)
        guard line > self.known.lines else { return }
        let state = try await self.store.calling { store throws(QueueError) in try await store.state(self.batch.id) }
        guard let state, !state.isCancelled else { throw BatchRoutes.cancelled }
        if state.isComplete {
            // Another request has stored all lines.
            self.known = state
            self.pushes = []
            return try self.checkLines()
        }
        if !self.pushes.isEmpty {
            try await self.waitForTurn()
            let pushes = self.pushes
            self.pushes.removeAll(keepingCapacity: true)
            self.stored += try await self.store(pushes)
        }
        let (newlyInvalid, now) = (self.newlyInvalid, self.clock.now.millisecondsSince1970)
        (self.bytes, self.newlyInvalid) = (0, 0)
        try await self.store.calling { store throws(QueueError) in
            try await store.change(self.batch.id) { state in
                guard state.lines < line else { return }
                state.lines = line
                state.checksum = checksum
                state.invalid += newlyInvalid
                state.storedAt = now
            }
        }
    }

    /// Checks that the lines so far are those of earlier requests.
    private func checkLines() throws(APIError) {
        if self.line == self.known.lines, self.checksum != self.known.checksum { throw self.otherLines }
        if self.line > self.known.lines, self.known.isComplete { throw self.otherLines }
    }

    private var otherLines: APIError {
        APIError(
            .conflict,
            .conflict,
            "The batch \(self.batch.id) was submitted with this idempotency key and other devices, of which \(self.known.lines) "
                + "are stored. This request has added \(self.stored). Submit the same lines in the same order, byte for "
                + "byte, or use another key."
        )
    }

    /// Stores pushes if their caller and app have room for them.
    ///
    /// - Returns: the number of stored pushes.
    private func store(_ pushes: [NewPush]) async throws(APIError) -> Int {
        // Pushes that are not stored do not count towards the rate.
        var count = 0
        defer { self.intake.limits.giveBack(pushes.count - count, self.caller) }
        do {
            let results = try await self.intake.store(pushes, isPartial: true)
            count = results.count { $0 == .queued }
            return count
        } catch {
            var error = error
            if error.code == .quotaExceeded {
                error.message +=
                    self.batch.idempotencyKey == nil
                    ? " The batch is cancelled." : " Submit the batch again with its idempotencyKey to continue it."
            }
            throw error
        }
    }

    /// Waits until the caller may submit more.
    private func waitForTurn() async throws {
        while true {
            if Task.isShuttingDownGracefully { throw APIError.shuttingDown }
            do throws(APIError) {
                return try self.intake.limits.take(self.pushes.count, self.caller)
            } catch {
                guard error.code == .rateLimited else { throw error }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }
}
