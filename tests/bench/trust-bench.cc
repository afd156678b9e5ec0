// Certificates per second from trustd, over kept connections and over new ones, and a whole rack
// that joins at once.
//
//   trust-bench SECONDS NODES         ours: the trustd that was built beside this program, with
//                                     machined's store and its journal
//   trust-bench --authority FOLDER    an ECDSA P-256 authority and a server certificate for the
//                                     peer
//   trust-bench --peer PORT SERVER SECONDS FOLDER
//                                     the same loops against an HTTPS server of CFSSL's interface,
//                                     which is the process SERVER
//
// Prints JSON. A failed call ends the program, except while nodes join: they connect again, as a
// machine does, and the number of retries is printed.
//
// link: trustd-lib machined-resources kj-http
#include <errno.h>
#include <fcntl.h>
#include <kj/compat/http.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "common/base/error.h"
#include "tests/bench/arguments.h"
#include "tests/bench/processes.h"
#include "tests/bench/trustd-process.h"

namespace talos::trustd {
namespace {

using namespace bench;
using testing::ask;
using testing::Caller;
using testing::kToken;

constexpr unsigned kAddresses = 64;  // of the callers with new connections
constexpr auto kJoinTimeout = 120 * kj::SECONDS;

// --- one server, as its clients see it --------------------------------------------------------

class Session {
 public:
  virtual ~Session() noexcept(false) = default;
  virtual kj::Promise<void> sign() = 0;
};
using Open = kj::Function<kj::Promise<kj::Own<Session>>(unsigned address)>;

// Ours signs no address of loopback; the peer's server is reached by no other.
kj::String addressOf(unsigned i, kj::StringPtr network = "10.9.") {
  return kj::str(network, i / 200, ".", 1 + i % 200);
}

class TrustSession final : public Session {
 public:
  TrustSession(Caller caller, kj::StringPtr request) : caller(kj::mv(caller)), request(request) {}
  kj::Promise<void> sign() override {
    auto answer = co_await caller.certificate(request);
    KJ_ASSERT(answer.certificate.startsWith("-----BEGIN CERTIFICATE-----"));
  }

 private:
  Caller caller;
  kj::StringPtr request;
};

class HttpSession final : public Session {
 public:
  HttpSession(const kj::HttpHeaderTable& table, kj::Own<kj::AsyncIoStream> stream,
              kj::StringPtr body)
      : table(table),
        stream(kj::mv(stream)),
        client(kj::newHttpClient(table, *this->stream)),
        body(body) {}
  kj::Promise<void> sign() override {
    kj::HttpHeaders headers(table);
    headers.set(kj::HttpHeaderId::HOST, "127.0.0.1");
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, "application/json");
    auto request =
        client->request(kj::HttpMethod::POST, "/api/v1/cfssl/sign", headers, body.size());
    co_await request.body->write(body.begin(), body.size());
    request.body = nullptr;
    auto response = co_await request.response;
    auto text = co_await response.body->readAllText();
    KJ_REQUIRE(response.statusCode == 200 && text.findFirst('B') != nullptr, text);
  }

 private:
  const kj::HttpHeaderTable& table;
  kj::Own<kj::AsyncIoStream> stream;
  kj::Own<kj::HttpClient> client;
  kj::StringPtr body;
};

// --- the loops --------------------------------------------------------------------------------

struct Loop {
  kj::AsyncIoContext& io;
  Open& open;
  unsigned clients;
  kj::Duration length;
  pid_t server;
  kj::Vector<uint64_t> took = {};
  uint64_t calls = 0, end = 0, warm = 0;
  unsigned dropped = 0;

  void note(uint64_t began) {
    auto now = nanoseconds();
    ++calls;
    if (began >= warm) took.add(now - began);
  }
  // Returns false if the server has dropped the connection, which it may do when it is full: then
  // the client dials again, as a node does.
  kj::Promise<bool> served(kj::Promise<void> call) {
    return call.then([] { return true; },
                     [this](kj::Exception&& e) {
                       if (e.getType() != kj::Exception::Type::DISCONNECTED) {
                         kj::throwFatalException(kj::mv(e));
                       }
                       ++dropped;
                       return false;
                     });
  }
  kj::Promise<void> dial(kj::Own<Session>& session, unsigned address) {
    session = co_await open(address);
  }
  kj::Promise<void> kept(unsigned address) {
    kj::Own<Session> session;
    while (nanoseconds() < end) {
      if (session.get() == nullptr && !co_await served(dial(session, address))) continue;
      auto began = nanoseconds();
      if (co_await served(session->sign())) {
        note(began);
      } else {
        session = nullptr;
      }
    }
  }
  kj::Promise<void> once(unsigned address) {
    auto session = co_await open(address);
    co_await session->sign();
  }
  // The time of a call includes the connections that were dropped before it was served.
  kj::Promise<void> anew(unsigned first) {
    for (unsigned i = first; nanoseconds() < end; i += clients) {
      auto began = nanoseconds();
      bool done = false;
      while (!done && nanoseconds() < end) done = co_await served(once(i % kAddresses));
      if (done) note(began);
    }
  }
  kj::String run(bool keep) {
    auto start = nanoseconds();
    warm = start + 200'000'000;
    end = warm + length / kj::NANOSECONDS;
    auto busy = processorSeconds(server);
    auto all = kj::heapArrayBuilder<kj::Promise<void>>(clients);
    for (unsigned i = 0; i < clients; ++i) all.add(keep ? kept(i) : anew(i));
    kj::joinPromises(all.finish()).wait(io.waitScope);
    auto perSecond = took.size() * 1e9 / (nanoseconds() - warm);
    auto each = figureOf(kj::mv(took));
    char text[200];
    snprintf(text, sizeof text,
             "{\"perSecond\":%.0f,\"p50us\":%.1f,\"p99us\":%.1f,\"busyUs\":%.1f,\"dropped\":%u}",
             perSecond, each.p50, each.p99, (processorSeconds(server) - busy) * 1e6 / calls,
             dropped);
    return kj::str(text);
  }
};

kj::String measureAll(kj::AsyncIoContext& io, Open& open, kj::Duration length, pid_t server) {
  kj::Vector<kj::String> parts;
  for (bool keep : {true, false}) {
    for (unsigned clients : {1u, 32u}) {
      Loop loop{io, open, clients, length, server};
      parts.add(kj::str("\"", keep ? "kept" : "new", clients, "\":", loop.run(keep)));
    }
  }
  return kj::str("{", kj::strArray(parts, ","), "}");
}

// --- ours ---------------------------------------------------------------------------------------

kj::Vector<kj::String> requests(unsigned count, pki::KeyType type) {
  kj::Vector<kj::String> result;
  for (unsigned i = 0; i < count; ++i) {
    result.add(ask({addressOf(i)}, {kj::str("node-", i)}, type).request);
  }
  return result;
}

kj::String measureOurs(pki::KeyType type, kj::Duration length) {
  TrustdProcess ours(type);
  auto io = kj::setupAsyncIo();
  auto asked = requests(kAddresses, type);
  TlsVerifier verifier(ours.authority.certificate);
  Open open = [&](unsigned i) -> kj::Promise<kj::Own<Session>> {
    auto caller = co_await Caller::connect(*io.lowLevelProvider, verifier, addressOf(i), ours.port);
    co_return kj::heap<TrustSession>(kj::mv(caller), asked[i]);
  };
  return measureAll(io, open, length, ours.trustd);
}

// --- a rack that joins
// ----------------------------------------------------------------------------

struct Join {
  kj::AsyncIoContext& io;
  kj::Timer& timer;
  TrustdProcess& ours;
  TlsVerifier verifier{ours.authority.certificate};
  std::minstd_rand random{1};
  unsigned failures = 0;
  kj::Vector<uint64_t> took = {};

  kj::Promise<void> node(unsigned i, kj::StringPtr request) {
    auto began = nanoseconds();
    auto address = addressOf(i);
    for (;;) {
      bool failed = false;
      co_await once(address, request).catch_([&](kj::Exception&& e) {
        KJ_REQUIRE(kindOf(e) == ErrorKind::kUnavailable ||
                       e.getType() == kj::Exception::Type::DISCONNECTED,
                   e);
        failed = true;
      });
      if (!failed) break;
      ++failures;
      co_await timer.afterDelay((200 + random() % 800) * kj::MILLISECONDS);
    }
    took.add(nanoseconds() - began);
  }
  kj::Promise<void> once(kj::StringPtr address, kj::StringPtr request) {
    auto caller = co_await Caller::connect(*io.lowLevelProvider, verifier, address, ours.port);
    co_await caller.certificate(request).ignoreResult();
  }
};

kj::String measureJoin(unsigned nodes) {
  struct rlimit files = {nodes + 1000ul, nodes + 1000ul};
  KJ_SYSCALL(setrlimit(RLIMIT_NOFILE, &files), "descriptors for every node");
  TrustdProcess ours(pki::KeyType::kEd25519);
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  auto asked = requests(nodes, pki::KeyType::kEd25519);
  Join join{io, timer, ours};
  // It serves: the first one.
  join.once("10.8.0.1", ask({"10.8.0.1"}).request).wait(io.waitScope);
  auto atRest = memoryOf(ours.trustd, "VmRSS"), storeBefore = memoryOf(ours.store, "VmRSS");
  int clear;
  KJ_SYSCALL(clear = open(kj::str("/proc/", ours.trustd, "/clear_refs").cStr(), O_WRONLY));
  KJ_SYSCALL(write(clear, "5", 1));  // the peak from here on
  close(clear);
  auto busyBefore = processorSeconds(ours.trustd);
  auto began = nanoseconds();
  kj::Vector<kj::Promise<void>> all;
  for (unsigned i = 0; i < nodes; ++i) all.add(join.node(i, asked[i]));
  timer.timeoutAfter(kJoinTimeout, kj::joinPromises(all.releaseAsArray())).wait(io.waitScope);
  auto seconds = (nanoseconds() - began) / 1e9;
  std::sort(join.took.begin(), join.took.end());
  char text[400];
  snprintf(text, sizeof text,
           "{\"nodes\":%u,\"seconds\":%.2f,\"p50s\":%.2f,\"p99s\":%.2f,\"dialledAgain\":%u,"
           "\"restKiB\":%u,\"peakKiB\":%u,\"processorSeconds\":%.2f,\"storeGrewKiB\":%d}",
           nodes, seconds, join.took[nodes / 2] / 1e9, join.took[nodes * 99 / 100] / 1e9,
           join.failures, atRest, memoryOf(ours.trustd, "VmHWM"),
           processorSeconds(ours.trustd) - busyBefore,
           int(memoryOf(ours.store, "VmRSS") - storeBefore));
  return kj::str(text);
}

// --- the peer
// -------------------------------------------------------------------------------------

void makePeer(kj::StringPtr folder) {
  auto authority =
      pki::makeAuthority({.organization = "peer", .keyType = pki::KeyType::kEcdsaP256});
  pki::LeafOptions options;
  options.addresses = kj::arr(kj::str("127.0.0.1"));
  auto server = pki::issue(authority.certificate, authority.key, kj::mv(options));
  writeFileAtomically(kj::str(folder, "/ca.pem"), authority.certificate, 0644);
  writeFileAtomically(kj::str(folder, "/ca-key.pem"), kj::StringPtr(authority.key), 0600);
  writeFileAtomically(kj::str(folder, "/server.pem"), server.certificate, 0644);
  writeFileAtomically(kj::str(folder, "/server-key.pem"), kj::StringPtr(server.key), 0600);
}

kj::String measurePeer(uint16_t port, pid_t server, kj::Duration length, kj::StringPtr folder) {
  auto io = kj::setupAsyncIo();
  TlsVerifier verifier(readFile(kj::str(folder, "/ca.pem")));
  kj::HttpHeaderTable::Builder builder;
  auto table = builder.build();
  kj::Vector<kj::String> bodies;
  for (auto& request : requests(kAddresses, pki::KeyType::kEcdsaP256)) {
    kj::Vector<char> escaped;
    for (char c : request) {
      if (c == '\n') {
        escaped.addAll("\\n"_kj);
      } else {
        escaped.add(c);
      }
    }
    bodies.add(kj::str("{\"certificate_request\":\"", escaped.asPtr(), "\"}"));
  }
  Open open = [&](unsigned i) -> kj::Promise<kj::Own<Session>> {
    auto raw = co_await testing::dialFrom(*io.lowLevelProvider, addressOf(i, "127.9."), port);
    tuneTcp(*raw);
    auto stream = co_await verifier.connect(kj::mv(raw), "127.0.0.1");
    co_return kj::heap<HttpSession>(*table, kj::mv(stream), bodies[i]);
  };
  return measureAll(io, open, length, server);
}

}  // namespace
}  // namespace talos::trustd

int main(int argc, char** argv) {
  using namespace talos::trustd;
  auto usage = "SECONDS NODES | --authority FOLDER | --peer PORT SERVER SECONDS FOLDER"_kj;
  return talos::bench::runMain(argc, argv, "trust-bench", usage, [](auto& arguments) {
    auto length = [&](size_t place) {
      return arguments.number(place, "SECONDS", 1, 3600) * kj::SECONDS;
    };
    if (arguments.text(1) == "--authority") {
      arguments.expect(2, 2);
      return makePeer(arguments.text(2));
    }
    if (arguments.text(1) == "--peer") {
      arguments.expect(5, 5);
      uint16_t port = arguments.number(2, "PORT", 1, 65'535);
      pid_t server = arguments.number(3, "SERVER", 1, 1u << 22);
      printf("%s\n", measurePeer(port, server, length(4), arguments.text(5)).cStr());
      return;
    }
    arguments.expect(2, 2);
    auto each = length(1);
    auto join = measureJoin(arguments.number(2, "NODES", 1, 50'000));
    auto ed25519 = measureOurs(talos::pki::KeyType::kEd25519, each);
    auto p256 = measureOurs(talos::pki::KeyType::kEcdsaP256, each);
    printf("{\"ed25519\":%s,\"p256\":%s,\"join\":%s}\n", ed25519.cStr(), p256.cStr(), join.cStr());
  });
}
