import APNSModel
import PushQueue

/// Random arguments. They are often equal, so that pushes affect each other.
extension HistoryRun {
    static let routes = [
        Route(app: "fern", environment: "production", lane: .interactive, caller: "shop"),
        Route(app: "fern", environment: "production", lane: .interactive, caller: "news"),
        Route(app: "fern", environment: "production", lane: .bulk, caller: "shop"),
        Route(app: "moss", environment: "development", lane: .bulk, caller: "news"),
    ]

    mutating func newPushes() throws -> (pushes: [NewPush], isPartial: Bool) {
        var pushes: [NewPush] = []
        for _ in 0..<Int.random(in: 1...4, using: &self.random) { pushes.append(try self.newPush()) }
        self.handedIn += pushes
        return (pushes, self.random.oneIn(2))
    }

    private mutating func newPush() throws -> NewPush {
        // Some pushes are submitted again, and some of these with another digest.
        if self.random.oneIn(10), var push = self.handedIn.randomElement(using: &self.random) {
            if self.random.oneIn(2) { push.id = APNSID.random(using: &self.random) }
            if self.random.oneIn(3) { push.idempotency?.digest = [9] }
            return push
        }
        let tick = self.test.fixture.tick
        let isKeyed = self.random.oneIn(3)
        let supersedes: SupersedeKey? = self.random.oneIn(3) ? (self.random.oneIn(2) ? "match" : "score") : nil
        let late = Int.random(in: 5...80, using: &self.random)
        let hasDeadline = self.withTime && self.random.oneIn(3)
        let expires = self.withTime && self.random.oneIn(6)
        let second = self.test.inTicks(late).millisecondsSince1970 / 1_000
        var push = try self.test.push(
            Self.routes.randomElement(using: &self.random) ?? Harness.route,
            token: self.random.oneIn(2) ? "aa" : "bb",
            due: self.test.now.advanced(
                by: tick * (self.withTime ? Int.random(in: -5...8, using: &self.random) : -1)
                    - .milliseconds(Int.random(in: 0...900, using: &self.random))
            ),
            deadline: hasDeadline ? self.test.inTicks(late - 3) : nil,
            expiration: expires ? .at(secondsSince1970: second) : .systemDefault,
            resendsUnknown: self.random.oneIn(3),
            supersedes: supersedes,
            key: isKeyed ? "\(self.seed)-\(Int.random(in: 0..<200, using: &self.random))" : nil
        )
        push.id = APNSID.random(using: &self.random)
        return push
    }

    /// Random claims, most of them from the last commands.
    mutating func someClaims() -> [Claim] {
        var claims: [Claim] = []
        for _ in 0..<Int.random(in: 1...4, using: &self.random) {
            let recent = self.random.oneIn(4) ? self.claims[...] : self.claims.suffix(8)
            if let claim = recent.randomElement(using: &self.random) { claims.append(claim) }
        }
        return claims
    }

    mutating func settlements(canBeAccepted: Bool = true) -> [Settlement] {
        self.someClaims().map { Settlement(claim: $0, outcome: self.outcome($0.id, canBeAccepted: canBeAccepted)) }
    }

    mutating func releases() -> [Release] {
        self.someClaims().map { claim in
            let ticks = self.withTime ? Int.random(in: -3...5, using: &self.random) : -1
            return Release(
                claim: claim,
                notBefore: self.test.inTicks(ticks),
                outcome: self.random.oneIn(3) ? nil : self.outcome(claim.id, canBeAccepted: false)
            )
        }
    }

    mutating func someID() -> APNSID {
        self.handedIn.suffix(40).randomElement(using: &self.random)?.id ?? APNSID.random(using: &self.random)
    }

    private mutating func outcome(_ id: APNSID, canBeAccepted: Bool) -> PushOutcome {
        switch Int.random(in: canBeAccepted ? 0..<7 : 2..<7, using: &self.random) {
        case 0, 1: .ok(id)
        case 2: .rejected(id, status: 410, reason: .unregistered)
        case 3: .rejected(id, status: 503, reason: .serviceUnavailable)
        case 4: .notProcessed(id)
        case 5: .failed(PushError(code: .unavailable, certainty: .notSent, message: "no connection"))
        default: .lostConnection(id)
        }
    }
}
