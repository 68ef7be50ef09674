import Foundation
import Testing

@testable import APNSTransport

/// Client certificates and keys in the file formats that operators use.
struct TLSIdentityTests {
    private let authority: CertificateAuthority

    init() throws {
        self.authority = try CertificateAuthority()
    }

    private func client(_ topics: [String] = ["com.example.app"]) throws -> TLSIdentity {
        let made = try self.authority.issueClient(topics: topics)
        return try TLSIdentity.read(
            certificate: Array(made.certificateChainPEM.utf8),
            key: Array(made.privateKeyPEM.utf8),
            passphrase: nil
        )
    }

    @Test func validityNameAndTopicsAreRead() throws {
        let identity = try self.client()
        let now = Int64(Date().timeIntervalSince1970)
        #expect(abs(identity.notBefore - (now - 86_400)) < 60)
        #expect(abs(identity.notAfter - (now + 365 * 86_400)) < 60)
        #expect(identity.commonName == "Apple Push Services: com.example.app")
        #expect(identity.topics == ["com.example.app"])
        #expect(identity.fingerprint.count == 64)
    }

    @Test("A name in UTF-16 is read as text") func nameInUTF16() throws {
        let text = Array(OldFiles.utf16Name.utf8)
        let identity = try TLSIdentity.read(certificate: text, key: text, passphrase: nil)
        #expect(identity.commonName == "Grüße")
    }

    @Test("A topic may be longer than a common name can be") func longTopic() throws {
        let topic = "com.example." + String(repeating: "long", count: 30)
        let identity = try self.client([topic])
        #expect(identity.topics == [topic])
        #expect(identity.commonName == String("Apple Push Services: \(topic)".prefix(64)))
    }

    @Test func theExtensionListsAllTopics() throws {
        let topics = ["com.example.app", "com.example.app.voip", "com.example.app.complication"]
        #expect(try self.client(topics).topics == topics)
    }

    @Test(arguments: [
        [], [0x30], [0x30, 0x80], [0x30, 0x05, 0x0C, 0x09, 0x41], [0x0C, 0x01, 0x41], [0x30, 0x84, 1, 1, 1, 1],
        [UInt8](repeating: 0xFF, count: 300),
    ])
    func aDamagedExtensionListsNoTopics(bytes: [UInt8]) {
        #expect(TLSIdentity.topics(inExtension: bytes).isEmpty)
    }

    @Test func theLeafIsTheCertificateThatMatchesTheKey() throws {
        let made = try self.authority.issueClient(topics: ["com.example.app"])
        let chain = Array((self.authority.certificatePEM + made.certificateChainPEM).utf8)
        let identity = try TLSIdentity.read(certificate: chain, key: Array(made.privateKeyPEM.utf8), passphrase: nil)
        #expect(identity.topics == ["com.example.app"])
        #expect(identity.certificateChainPEM == made.certificateChainPEM + self.authority.certificatePEM)
    }

    @Test func certificateAndKeyMayBeOneText() throws {
        let made = try self.authority.issueClient(topics: ["com.example.app"])
        let text = Array((made.privateKeyPEM + made.certificateChainPEM).utf8)
        #expect(try TLSIdentity.read(certificate: text, key: text, passphrase: nil).topics == ["com.example.app"])
    }

    @Test func aPKCS12FileReturnsTheSameIdentity() throws {
        let identity = try self.client()
        let file = try identity.pkcs12(passphrase: "open sesame")
        #expect(try TLSIdentity.read(pkcs12: file, passphrase: "open sesame") == identity)
        // An empty passphrase is valid too.
        let open = try identity.pkcs12(passphrase: "")
        #expect(try TLSIdentity.read(pkcs12: open, passphrase: nil) == identity)
    }

    private func fault(_ body: () throws -> TLSIdentity) -> TLSIdentity.Fault.Code? {
        do {
            _ = try body()
            return nil
        } catch {
            return (error as? TLSIdentity.Fault)?.code
        }
    }

    @Test func aWrongOrMissingPassphraseIsReported() throws {
        let file = try self.client().pkcs12(passphrase: "right")
        #expect(self.fault { try TLSIdentity.read(pkcs12: file, passphrase: "wrong") } == .passphraseWrong)
        #expect(self.fault { try TLSIdentity.read(pkcs12: file, passphrase: nil) } == .passphraseMissing)
        let key = Array(OldFiles.encryptedKey.utf8)
        let certificate = Array(OldFiles.certificate.utf8)
        func read(_ passphrase: String?) throws -> TLSIdentity {
            try TLSIdentity.read(certificate: certificate, key: key, passphrase: passphrase)
        }
        #expect(try read("secret").topics == ["com.example.legacy"])
        #expect(self.fault { try read("wrong") } == .passphraseWrong)
        #expect(self.fault { try read(nil) } == .passphraseMissing)
    }

    @Test func rc2IsReportedAsTooOldAndTripleDESIsRead() throws {
        let rc2 = try #require(Data(base64Encoded: OldFiles.rc2, options: .ignoreUnknownCharacters))
        #expect(self.fault { try TLSIdentity.read(pkcs12: Array(rc2), passphrase: "secret") } == .encryptionTooOld)
        #expect(self.fault { try TLSIdentity.read(pkcs12: Array(rc2), passphrase: "wrong") } == .passphraseWrong)
        let des = try #require(Data(base64Encoded: OldFiles.tripleDES, options: .ignoreUnknownCharacters))
        #expect(try TLSIdentity.read(pkcs12: Array(des), passphrase: "secret").topics == ["com.example.legacy"])
    }

    @Test func mismatchedOrSwappedPartsAreRejected() throws {
        let one = try self.authority.issueClient(topics: ["com.example.one"])
        let two = try self.authority.issueClient(topics: ["com.example.two"])
        let certificate = Array(one.certificateChainPEM.utf8)
        #expect(
            self.fault {
                try TLSIdentity.read(certificate: certificate, key: Array(two.privateKeyPEM.utf8), passphrase: nil)
            } == .keyMismatch
        )
        #expect(
            self.fault { try TLSIdentity.read(certificate: certificate, key: certificate, passphrase: nil) } == .notAKey
        )
        #expect(
            self.fault { try TLSIdentity.read(certificate: [1, 2, 3], key: certificate, passphrase: nil) }
                == .notACertificate
        )
        #expect(self.fault { try TLSIdentity.read(pkcs12: certificate, passphrase: "x") } == .notACertificate)
    }

    /// Each prefix of each file is rejected with the fault of its kind.
    @Test func truncatedFilesAreRejected() throws {
        let made = try self.authority.issueClient(topics: ["com.example.app"])
        let certificate = Array(made.certificateChainPEM.utf8)
        let key = Array(made.privateKeyPEM.utf8)
        for count in stride(from: 0, to: key.count - 2, by: 7) {
            #expect(
                self.fault {
                    try TLSIdentity.read(certificate: certificate, key: Array(key[..<count]), passphrase: nil)
                } == .notAKey
            )
        }
        for count in stride(from: 0, to: certificate.count - 2, by: 31) {
            #expect(
                self.fault {
                    try TLSIdentity.read(certificate: Array(certificate[..<count]), key: key, passphrase: nil)
                } == .notACertificate
            )
        }
        let file = try self.client().pkcs12(passphrase: "x")
        for count in stride(from: 0, to: file.count, by: 31) {
            #expect(self.fault { try TLSIdentity.read(pkcs12: Array(file[..<count]), passphrase: "x") } != nil)
        }
    }
}

/// Written by OpenSSL's tool, in formats that this library only reads. The passphrase is "secret".
enum OldFiles {
    /// A certificate whose name is a BMPString (UTF-16), and its key.
    static let utf16Name = """
        -----BEGIN CERTIFICATE-----
        MIIBJTCBzQIULOoHiBDtSX4ZnR30PDrvkeKAP6UwCgYIKoZIzj0EAwIwFTETMBEG
        A1UEAx4KAEcAcgD8AN8AZTAgFw0yNjExMjMwODIyMzdaGA8yMTI2MTAzMDA4MjIz
        N1owFTETMBEGA1UEAx4KAEcAcgD8AN8AZTBZMBMGByqGSM49AgEGCCqGSM49AwEH
        A0IABDmidkTXlauYmL9NshrLOG0ko2KPSwiocvpins8I2mobsnxNMcCY7qwtD/VT
        sOlzw6yRHctz4tct6sg/DzfPXE8wCgYIKoZIzj0EAwIDRwAwRAIgdf81eqk6zggL
        H1oi9v4szNIMsQ9DvzuXkR3JYsNyhRICIBheqFImPSl5WA6RKbdRLKMzQygtzuLv
        eyle4RFSbElq
        -----END CERTIFICATE-----
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgZ4ZOEV5fngRFSsxM
        9eDVt2F33a8bqxLhddXx7+g9SsyhRANCAAQ5onZE15WrmJi/TbIayzhtJKNij0sI
        qHL6Yp7PCNpqG7J8TTHAmO6sLQ/1U7Dpc8OskR3Lc+LXLerIPw83z1xP
        -----END PRIVATE KEY-----
        """

    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIICAjCCAamgAwIBAgIUJi98hki/JTarTPVYIpVhuRmeP88wCgYIKoZIzj0EAwIw
        VjEiMCAGCgmSJomT8ixkAQEMEmNvbS5leGFtcGxlLmxlZ2FjeTEwMC4GA1UEAwwn
        QXBwbGUgUHVzaCBTZXJ2aWNlczogY29tLmV4YW1wbGUubGVnYWN5MCAXDTI2MTEy
        MTEwNTAwM1oYDzIxMjYxMDI4MTA1MDAzWjBWMSIwIAYKCZImiZPyLGQBAQwSY29t
        LmV4YW1wbGUubGVnYWN5MTAwLgYDVQQDDCdBcHBsZSBQdXNoIFNlcnZpY2VzOiBj
        b20uZXhhbXBsZS5sZWdhY3kwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARKXzn3
        Zpr+NU8rtrXTWBqnS8xUnhe2XbqKJ7BBqOVnZBK1wVZFGTV8rl/xv7ZJMJOBTy7T
        Vvc8Gk8G/GHBAwDPo1MwUTAdBgNVHQ4EFgQUTeVo1ylkzdzNJSGpTHJR90GFegcw
        HwYDVR0jBBgwFoAUTeVo1ylkzdzNJSGpTHJR90GFegcwDwYDVR0TAQH/BAUwAwEB
        /zAKBggqhkjOPQQDAgNHADBEAiAKhxtuntPVe2DyCR6xGAWzhOLgH0B7EQWlmduX
        Wm1CbgIgZu4swWDY7AKGEo7Q6DTEG6r2eGoSpVkgXFozmU+X5ZM=
        -----END CERTIFICATE-----
        """
    /// PKCS#8, AES-256.
    static let encryptedKey = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgy7+pzZeV+kAICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEFp1HJSHgTQK0c5epaCGXdoEgZDW
        l7iFOi2tf3b+YkAYlVgSSjqCdSJ1bAOd0ZvoicMNBw7glPxL7QkQQhOP7w6lfRz6
        L9Iq/Y2/ClVSaOA16FAFJplMvOhn3AwArT7H5yEz0/9sdiOyOosSq3/dtYIwvCpk
        0hT7NIWiwnlxwmo9Zg7dTLMbhJjHW/rCpPD4FU9YdaBGkpYcI6uih1xmGAXkFko=
        -----END ENCRYPTED PRIVATE KEY-----
        """
    /// PKCS#12: the certificate in RC2 of 40 bits, the key in triple DES.
    static let rc2 = """
        MIIEAgIBAzCCA8gGCSqGSIb3DQEHAaCCA7kEggO1MIIDsTCCAqcGCSqGSIb3DQEHBqCCApgwggKUAgEAMIICjQYJKoZIhvcNAQcB
        MBwGCiqGSIb3DQEMAQYwDgQI2/vQOXTqXF8CAggAgIICYPQR2NARnRks9R82JIBxt7BBp8iviL+I8/ksTAtVs8OJo51HRwiKk9qD
        skjWZLUAGe+LJetD8b893/HDn219l9YAVYnIgJRLJO413V6LvUz7ZK9HFbGbAAONu0e0+OKyqiyEje3AU8ebcPAiIwyKUrHrUNHW
        lLp9UR24vjAB8r/HFGcSNfFigNJ7Gnlm0SFHXf8farh6Y3AOwr3PAPNdJVy80GxK3BnBt7Dnj1CiXw5nhl0W0n++DgRKA8elHo/v
        +0r/dJdb2jeWo+RLiMwdVMKSR4G/MJtkJ05Ye4xOswS1MtTNCU0j289N52a/sGZrS8bbH0kBK5BiKmF71sZaWRKi/ph57R2xD3ao
        yN4reAtN7fpay8/HfThklL6XM1unOjqWG6v/3NpFkT0UD7J3Yw0PQPP3TZydTQIdWYgWAzuLIIUn7KJcHRtOQ6W5eDCMXD/a8JmZ
        EQVjYioKp0bGROHJ8qR/dwhm4h1HDJK0jQ1dCl2KZVNb7cslagzZHt53ZGHW0VOGRYwM0bubzS7saHqDVvcuOB/cOap1MXS8gr58
        HOVwvW3KRkbHLKT/Dx628KcTs/leIKzH2riYF8iaoRkPj3yQFa51senb/yZ4uoStjpb0WuXDB3W0PkyvGDFxsNjCsIgeClBG4Kmn
        CKmQtcsPEWZhbSKTYuJ8P6eQ6UJ0ZFFIQ3zeanp9etnj6BsP3jepKyKp8pizowVRmTNLR2UWKXV/BugWrnnMg8h1t9eNQ2LiOSOc
        TuJoAQ/7HM/rOKi9yiJ/+oAM0YGTGQhOgcwxyvIIypH5ftnz2/M3dnIkMIIBAgYJKoZIhvcNAQcBoIH0BIHxMIHuMIHrBgsqhkiG
        9w0BDAoBAqCBtDCBsTAcBgoqhkiG9w0BDAEDMA4ECMA3WOxrNA/6AgIIAASBkLe7ZTjwewfcEoFepWjknStb9kVNWtwfWSIYE2Az
        Im/tE6I4utj0OXWU+AxTZvOi+aItiDRFCshEJVpUExiPjhyg3UYWb5WDbnFA1XhlQQijvd4wAFW97DWG7CkrsbSdw6chrLx2iOz7
        FsLSwl2sMMpkMm2n5MrRhsNf5/lSgdV+RXyjwVKsjgjo0V+6yj9vRTElMCMGCSqGSIb3DQEJFTEWBBQwvVpQU00+o+s4fYXikELz
        zV2K0DAxMCEwCQYFKw4DAhoFAAQUbn2jebn1b3C0CfdtY+dfUTWMWCUECJ67RHLp6tFGAgIIAA==
        """
    /// PKCS#12: all in triple DES.
    static let tripleDES = """
        MIIEAgIBAzCCA8gGCSqGSIb3DQEHAaCCA7kEggO1MIIDsTCCAqcGCSqGSIb3DQEHBqCCApgwggKUAgEAMIICjQYJKoZIhvcNAQcB
        MBwGCiqGSIb3DQEMAQMwDgQIhDO8xXRvn60CAggAgIICYGc1fKYm5HJVQNVyoESXieXKjWM7YHDEzBaJy6naJrDhtfB5MTG4hAwN
        k+O9ma9RNZlXB/0EItNaDf2vBfvP5NhWRiwevyraBVXzTJ5M6bI/iv/nWqbpc758b9gaYFGjXjpze6ng/v8w6y45g/0pLi3KAOSi
        Npg1ZH21l9gqByAmasl5fu0myUPULwG5l34qHUrKdj+QT43MgCXqhhQXnBJ3pON81Mq/wDJFI5jXZtUjJMZAa+6K0f4hwPEKofDF
        rd/NFmlenpveDpW/fXdXj4C+Yz2uLqwgpL6dehE9zo9xnERWHU3FPMdacFmug+opBnKPqlqkZEQvgsPjb8MlwGrmoyYtfVXZTcWw
        Vdeps6phLhVHzZAlfwCXXLHQr9CMXDBbeg+1vCMVFjvucimZ2Sp7kT6v5WfkR99SBidFzEDUe23Zme32/2UwA4VmjlMiTToo3hXv
        EXnLE2ylhgN3SMgBBDuO6d50felUgzyFE14z8/q+jTPmh+WmbmZ57tkf+Jt6LrWXPGJ0WW1RltsTyxTV3vj3GtXP9SYJohPWZmoq
        Mtl4dSRWPnepcikpjPavkriV7QkISeFEht4q2X1CMjNKTs4sfyuBWpu7/UnRgTRj6b6D0K1cQz6dx2dnqRZH/sAGaETBm3L/LAXy
        14PI002ndvPTAz2tIeCWCoXTnFJScKiPvaN5GsqI8IfspNm6grSXvRpPHCCgp2V++Fz5CmW4Q+rbpYiglh3gwlEdf5E1NjUS6EFi
        l6EGX03lX2OkLe9vP2Kj7CvJ2tenxKnJYSFIpYPbZBBo4Sz8u+mGFqqJMIIBAgYJKoZIhvcNAQcBoIH0BIHxMIHuMIHrBgsqhkiG
        9w0BDAoBAqCBtDCBsTAcBgoqhkiG9w0BDAEDMA4ECBneh42dV3LdAgIIAASBkKZ9xNDkjTTnjfOcU5tsHfVISdIEyknHEhklyBQ0
        qYWOMuL54/oMpGUF6IGiI9/XCkov7kkQeBGFtF8w53Uz0pa4yUf8kiHNP7A0JI46Hox/ZHNSc52bs22SPNDrYPzdsQ3Udfa9ATLz
        256pMFFNTWY3nmp2GvyS0ev+qQOmi/xLxDLHiPY/hNWOU50A+lkmEzElMCMGCSqGSIb3DQEJFTEWBBQwvVpQU00+o+s4fYXikELz
        zV2K0DAxMCEwCQYFKw4DAhoFAAQUb0NcMvbFIkbAxrRmVoRVdrpFUagECJbFAQzyeYKxAgIIAA==
        """
}
