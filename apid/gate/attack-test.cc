// Attacks on apid: each is refused and logged, and the next honest call is answered.
#include <capnp/dynamic.h>
#include <sys/resource.h>

#include "apid/gate/test-apid.h"

namespace talos::apid {
namespace {

struct Attack : testing::ApidTest {
  ~Attack() noexcept override {}

  void expectUnharmed() {
    EXPECT_EQ(version(machine(connectAs(a, {"os:reader"}).cluster)), "node 10.0.0.1"_kj);
  }
  Credentials ours(pki::LeafOptions options) {
    auto leaf = pki::issue(authority.pair.certificate, authority.pair.key, kj::mv(options));
    return {kj::str(authority.pair.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)};
  }
  kj::Own<kj::AsyncIoStream> dial() {
    auto address = wait(io.provider->getNetwork().parseAddress(kj::str("127.0.0.1:", a.port)));
    return wait(address->connect());
  }
};

// Catches: an invalid certificate that is accepted; a refusal without an error in the log.
TEST_F(Attack, CertificatesThatAreNone) {
  start(a);
  auto now = kj::systemPreciseCalendarClock().now();
  auto admin = [] { return kj::arr(kj::str("os:admin")); };
  auto stranger = otherAuthority.client("someone", {"os:admin"});
  stranger.authorities = kj::str(authority.pair.certificate);
  auto own = pki::makeKey(pki::KeyType::kEd25519);
  pki::LeafOptions selfOptions;
  selfOptions.organizations = admin();
  auto itself = pki::selfSign(own, selfOptions);
  struct Row {
    const char* name;
    Credentials credentials;
    const char* error;
  };
  Row rows[] = {
      {"another authority", kj::mv(stranger), "unable to get local issuer certificate"},
      {"signed by itself",
       {kj::str(authority.pair.certificate), kj::mv(itself), kj::mv(own)},
       "self-signed certificate"},
      {"expired ten years ago",
       ours({.organizations = admin(), .notBefore = now - 3650 * kj::DAYS}),
       "certificate has expired: it is valid from "},
      {"valid in ten years", ours({.organizations = admin(), .notBefore = now + 3650 * kj::DAYS}),
       "certificate is not yet valid: it is valid from "},
      {"for servers only", ours({.organizations = admin(), .client = false}), "purpose"},
  };
  for (auto& row : rows) {
    ::testing::internal::CaptureStderr();
    auto failure = kj::runCatchingExceptions([&] {
      auto session = connect(a, kj::mv(row.credentials));
      wait(machine(session.cluster).rebootRequest().send().ignoreResult());
    });
    auto lines = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(failure, nullptr) << row.name;
    EXPECT_NE(lines.find("handshake refused"), std::string::npos) << row.name << ": " << lines;
    EXPECT_NE(lines.find(row.error), std::string::npos) << row.name << ": " << lines;
    expectUnharmed();
  }
  EXPECT_EQ(a.model.reboots, 0u);
}

// Catches: a method, of all methods, that a reader may call and should not; a refusal that does not
// name the missing role.
TEST_F(Attack, AReaderOnEveryMethodThatIsNotForHim) {
  start(a);
  auto session = connectAs(a, {"os:reader"});
  auto typed = session.cluster.nodeRequest().send().getNode();
  capnp::DynamicCapability::Client node(typed);
  Rules rules(capnp::Schema::from<rpc::Cluster>());
  kj::Vector<kj::String> tried;
  auto expectDenied = [&](capnp::DynamicCapability::Client on,
                          capnp::InterfaceSchema::Method method) {
    auto rule = rules.find(on.getSchema().getProto().getId(), method.getOrdinal());
    if (permits(kj::arr(kj::str(kRoleReader)), rule.needed)) return;
    auto e = failureOf(on.newRequest(method).send().ignoreResult());
    EXPECT_EQ(kindOf(e), ErrorKind::kPermissionDenied)
        << rule.method.cStr() << ": " << messageOf(e).cStr();
    EXPECT_EQ(messageOf(e),
              kj::str(rule.method, " needs the role ", rule.needed, "; this caller has os:reader"));
    tried.add(kj::mv(rule.method));
    // The method's result is denied as well.
    for (auto field : method.getResultType().getFields()) {
      if (!field.getType().isInterface()) continue;
      auto given = on.newRequest(method).send().get(field).releaseAs<capnp::DynamicCapability>();
      for (auto inner : given.getSchema().getMethods()) {
        auto refused = failureOf(given.newRequest(inner).send().ignoreResult());
        EXPECT_EQ(kindOf(refused), ErrorKind::kPermissionDenied);
        auto its = rules.find(given.getSchema().getProto().getId(), inner.getOrdinal());
        tried.add(kj::mv(its.method));
      }
    }
  };
  for (auto give : node.getSchema().getMethods()) {
    expectDenied(node, give);
    auto field = give.getResultType().getFields()[0];
    // Requested again each time: a part that the model lacks soon fails.
    auto part = [&]() {
      return node.newRequest(give).send().get(field).releaseAs<capnp::DynamicCapability>();
    };
    for (auto method : part().getSchema().getMethods()) expectDenied(part(), method);
  }
  for (auto& rule : rules.all()) {  // all recorded methods were among them
    if (!rule.audit) continue;
    bool found = false;
    for (auto& method : tried) found = found || method == rule.method;
    EXPECT_TRUE(found) << rule.method.cStr();
  }
  EXPECT_GE(tried.size(), 10u);
  EXPECT_EQ(a.model.reboots + a.model.applies, 0u);
  // Refused calls that would change something are recorded.
  EXPECT_GE(a.model.audited.size(), 8u);
  expectUnharmed();
}

// Catches: a client that keeps a place by sending the beginning of a handshake byte by byte.
TEST_F(Attack, HandshakeSentByteByByteIsEndedByTheDeadline) {
  a.certify(authority);
  a.startMachined();
  a.startApid({.handshake = 200 * kj::MILLISECONDS});
  wait(a.identity.ready());
  ::testing::internal::CaptureStderr();
  auto stream = dial();
  // Announces a record of 512 bytes.
  kj::byte head[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01};
  wait(stream->write(head, sizeof head));
  auto drip = [](kj::AsyncIoStream& stream, kj::Timer& timer) -> kj::Promise<void> {
    kj::byte next = 0;
    for (;;) {
      co_await stream.write(&next, 1);
      co_await timer.afterDelay(5 * kj::MILLISECONDS);
    }
  };
  auto dripping = drip(*stream, timer).eagerlyEvaluate([](kj::Exception&&) {});
  kj::byte buffer[64];
  auto ended =
      stream->tryRead(buffer, 1, sizeof buffer).catch_([](kj::Exception&&) -> size_t { return 0; });
  EXPECT_EQ(wait(kj::mv(ended)), 0u);
  auto lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("no handshake within 200ms"), std::string::npos) << lines;
  expectUnharmed();
}

// Catches: silent connections that take all places, including those of the client's address, and
// stay; descriptors that leak.
TEST_F(Attack, TenThousandHalfOpenConnections) {
  a.certify(authority);
  a.startMachined();
  a.startApid({.connections = 64, .connectionsPerPeer = 32});
  wait(a.identity.ready());
  auto honest = connectAs(a, {"os:reader"});
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  auto soft = files;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  KJ_DEFER(setrlimit(RLIMIT_NOFILE, &soft));
  // Opens as many at once as the host allows, ten thousand in all.
  size_t most = kj::min<size_t>(10'000, (files.rlim_cur - 200) / 2);
  ::testing::internal::CaptureStderr();
  kj::Vector<kj::Own<kj::AsyncIoStream>> silent;
  for (unsigned i = 0; i < 10'000; ++i) {
    if (silent.size() >= most) silent.clear();
    silent.add(dial());
    if (i % 1000 == 999) EXPECT_EQ(version(machine(honest.cluster)), "node 10.0.0.1"_kj);
  }
  expectUnharmed();  // from the same address, while all of them are open
  auto lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("closed to make room for a newer connection"), std::string::npos);
  EXPECT_LT(std::count(lines.begin(), lines.end(), '\n'), 1000) << "the log is flooded";
  silent.clear();
  expectUnharmed();
}

}  // namespace
}  // namespace talos::apid
