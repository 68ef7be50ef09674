import Foundation
import TestSupport

/// A push server based on Node's http2 module. It fails at random in every way and records its actions.
struct NodePushServer: Sendable {
    /// The server's action for a push. `isProcessed` is decided before the client gets any reaction.
    enum Verdict: String, CaseIterable {
        // Processed.
        case ok, late, hold, gone
        /// RST_STREAM(INTERNAL_ERROR).
        case reset
        /// `session.destroy()`: GOAWAY, and the connection is closed.
        case destroy
        /// The TCP connection is closed, or reset, without GOAWAY.
        case cut, abort
        /// Response 200 and GOAWAY: `session.goaway()` with this stream as the last, or `session.close()`.
        case last, leave
        // Not processed.
        case busy, refused
        /// GOAWAY whose last stream is below this one.
        case above

        var isProcessed: Bool { ![.busy, .refused, .above].contains(self) }
        var isResponse200: Bool { [.ok, .late, .last, .leave].contains(self) }
    }

    /// The server's record.
    struct Record {
        /// By device token: the ids of its requests, and the action for each request.
        var ids: [String: Set<String>] = [:]
        var verdicts: [String: [Verdict]] = [:]
        var opened = 0
        var closed = 0
        /// Exceptions in the script itself.
        var faults: [String] = []

        /// - Parameter text: lines as the script writes them.
        init(_ text: String) {
            for line in text.split(separator: "\n") {
                let words = line.split(separator: " ").map(String.init)
                switch words.first {
                case "open": self.opened += 1
                case "close": self.closed += 1
                case "seen" where words.count == 5: self.ids[words[3], default: []].insert(words[4])
                case let word? where words.count == 5 && Verdict(rawValue: word) != nil:
                    if let verdict = Verdict(rawValue: word) { self.verdicts[words[3], default: []].append(verdict) }
                default: self.faults.append(String(line))
                }
            }
        }
    }

    /// Its arguments are a port and a seed.
    private static let script = #"""
        const http2 = require('http2'), fs = require('fs');
        const { NGHTTP2_REFUSED_STREAM, NGHTTP2_INTERNAL_ERROR } = http2.constants;
        const file = fs.openSync('record.txt', 'a');
        // Written synchronously, so the file has each event before a client learns of it.
        const note = (...words) => fs.writeSync(file, words.join(' ') + '\n');
        process.on('uncaughtException', (error) => note('fault', String(error.stack).replace(/\n/g, ' | ')));

        let state = Number(BigInt(process.argv[3]) & 0xffffffffn);
        const random = (limit) => {
          state = (state + 0x6D2B79F5) | 0;
          let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
          mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
          return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
        };
        // A deck of cards: each round has every kind of fault, in an order that the seed determines.
        const kinds = { late: 40, refused: 10, reset: 4, above: 2, last: 1, leave: 1, destroy: 1, cut: 1, abort: 1,
                        burst: 1, hold: 6, gone: 10 };
        let cards = [], busy = 0;
        const draw = () => {
          if (busy > 0) { busy -= 1; return 'busy'; }
          if (cards.length === 0) {
            for (const [kind, count] of Object.entries(kinds)) cards.push(...Array(count).fill(kind));
            while (cards.length < 400) cards.push('ok');
            for (let i = cards.length - 1; i > 0; i--) {
              const j = random(i + 1);
              [cards[i], cards[j]] = [cards[j], cards[i]];
            }
          }
          const card = cards.pop();
          if (card !== 'burst') return card;
          busy = 19;
          return 'busy';
        };

        const sockets = new Map();
        let connections = 0;
        const server = http2.createSecureServer({
          key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem'),
          settings: { maxConcurrentStreams: 50 } });
        server.on('connection', (socket) => { socket.on('error', () => {}); sockets.set(socket.remotePort, socket); });
        server.on('tlsClientError', () => {});
        server.on('sessionError', () => {});
        server.on('session', (session) => {
          const number = ++connections, port = session.socket.remotePort;
          Object.assign(session, { number, raw: sockets.get(port), limit: Infinity, top: 0 });
          note('open', number);
          session.on('error', () => {});
          session.on('close', () => { sockets.delete(port); note('close', number); });
        });
        // Node stops reading after the last stream, and then does not notice that the client closes. So the server
        // closes the session itself, once the GOAWAY is sent.
        const goAway = (session) => {
          // A stream may end after its session was destroyed.
          if (session.destroyed) return;
          session.limit = session.top;
          session.goaway(0, session.top);
          setTimeout(() => session.close(), 10);
        };
        server.on('stream', (stream, headers) => {
          const session = stream.session;
          const id = headers['apns-id'], token = headers[':path'].slice('/3/device/'.length);
          // After its session was destroyed, a stream has no session.
          const write = (verdict) => note(verdict, session?.number ?? 0, stream.id, token, id);
          const respond = (status, body) => {
            if (stream.destroyed || stream.closed) return;
            stream.respond({ ':status': status, 'apns-id': id });
            stream.end(body);
          };
          stream.on('error', () => {});
          write('seen');
          if (!session) return;
          if (stream.id > session.limit) return write('above');
          let card = draw();
          if (card === 'refused') { write(card); return stream.close(NGHTTP2_REFUSED_STREAM); }
          if (card === 'above') {
            // For Node, a last stream of 0 means the newest stream.
            if (session.top > 0 && session.top < stream.id) {
              write(card);
              return goAway(session);
            }
            card = 'ok';
          }
          stream.resume();
          stream.on('end', () => {
            if (stream.id > session.limit) return write('above');
            session.top = Math.max(session.top, stream.id);
            write(card);
            switch (card) {
            case 'late': setTimeout(() => respond(200), 1 + random(30)); break;
            case 'hold': break;
            case 'gone': respond(410, '{"reason":"Unregistered","timestamp":1700000000000}'); break;
            case 'busy': respond(503, '{"reason":"ServiceUnavailable"}'); break;
            case 'reset': stream.close(NGHTTP2_INTERNAL_ERROR); break;
            case 'destroy': session.destroy(); break;
            case 'cut': session.raw.destroy(); break;
            case 'abort': session.raw.resetAndDestroy(); break;
            case 'last':
              goAway(session);
              respond(200);
              break;
            case 'leave': respond(200); session.close(); break;
            default: respond(200);
            }
          });
        });
        server.listen(Number(process.argv[2]), '127.0.0.1');
        """#

    private let server: ForeignServer
    var port: Int { self.server.port }
    var caPEM: String { self.server.caPEM }

    static func start(seed: UInt64) async throws -> NodePushServer {
        let server = try await ForeignServer.start(
            "node",
            files: ["server.js": { _ in Self.script }, "record.txt": { _ in "" }]
        ) { port, _ in ["server.js", "\(port)", "\(seed)"] }
        return NodePushServer(server: server)
    }

    /// The server's record so far.
    func record() throws -> Record {
        Record(try String(contentsOfFile: "\(self.server.directory)/record.txt", encoding: .utf8))
    }

    func stop() { self.server.stop() }
}
