import APNSModel
import PushQueue

enum MarkCases {
    static let all = [
        ConformanceCase("A marked push is written, and the mark counts as an attempt") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push)
            try expectEqual(try await test.status(push).attempts, 0, "attempts before the mark")
            try await test.mark(claim)
            let status = try await test.status(push)
            try expectEqual(status.state, .written, "state")
            try expectEqual(status.attempts, 1, "attempts")
        },
        ConformanceCase("An expired claim and a new claim are never both marked, whenever expired leases end") { test in
            let push = try test.push()
            try await test.store(push)
            let old = try await test.claim(push, ticks: 5)
            await test.advance(6)
            // Before a call of expireLeases, either the mark fails, or the push still belongs to this claimant.
            let isMarked = try await test.canMark(old)
            _ = try await test.queue.expireLeases()
            let claimed = try await test.claim()
            try expect(!isMarked || claimed.isEmpty, "two claimants may send one push")
            if isMarked {
                try await test.expectState(push, .written)
            } else {
                try expectEqual(claimed.count, 1, "claims")
            }
        },
        ConformanceCase("Claims that no queue has made are not marked") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push)
            for wrong in [
                Claim(id: .random(), epoch: 1, position: .max), Claim(id: .random(), epoch: .min, position: .min),
                Claim(id: push.id, epoch: claim.epoch + 1, position: claim.position),
                Claim(id: push.id, epoch: claim.epoch - 1, position: claim.position),
            ] {
                try expect(!(try await test.canMark(wrong)), "\(wrong) was marked")
            }
            try await test.mark(claim)
        },
        ConformanceCase("A mark replaces the lease of the claim") { test in
            let push = try test.push()
            try await test.store(push)
            let claim = try await test.claim(push, ticks: 5)
            try await test.mark(claim, ticks: 50)
            await test.advance(20)
            try expectEqual(try await test.queue.expireLeases(), ExpiredLeases(), "expired leases")
            try await test.expectState(push, .written)
        },
    ]
}
