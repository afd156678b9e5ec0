#include "common/wire/audit.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/wire/roles.h"
#include "rpc/node.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos {
namespace {

struct Kept {
  kj::Vector<AuditTrail::Call> calls;
  kj::TimePoint time = kj::origin<kj::TimePoint>();
  kj::Maybe<kj::ForkedPromise<void>> slow;  // if set, recording a call takes until it resolves
};

class Trail final : public AuditTrail, public kj::Refcounted {
 public:
  explicit Trail(Kept& kept) : kept(kept) {}
  kj::Own<AuditTrail> addRef() override { return kj::addRef(*this); }
  kj::TimePoint now() override { return kept.time; }
  kj::Promise<void> record(Call call) override {
    kept.calls.add(kj::mv(call));
    KJ_IF_MAYBE (s, kept.slow) return s->addBranch();
    return kj::READY_NOW;
  }

 private:
  Kept& kept;
};

class FakeServices final : public rpc::Services::Server {
 public:
  explicit FakeServices(Kept& kept) : kept(kept) {}

 protected:
  kj::Promise<void> restart(RestartContext context) override {
    kept.time += 7 * kj::MILLISECONDS;
    if (context.getParams().getId() != "apid") fail(ErrorKind::kNotFound, "no such service");
    context.getResults().setResponse("restarted");
    return kj::READY_NOW;
  }
  kj::Promise<void> stop(StopContext) override { return kj::NEVER_DONE; }
  kj::Promise<void> list(ListContext) override { return kj::READY_NOW; }

 private:
  Kept& kept;
};

struct Audit : testing::Test {
  ~Audit() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  Rules rules{capnp::Schema::from<rpc::Cluster>()};
  Kept kept;

  rpc::Services::Client servicesFor(kj::StringPtr role) {
    return attenuate(
               rules, rpc::Services::Client(kj::heap<FakeServices>(kept)), kj::arr(kj::str(role)),
               [](kj::StringPtr, kj::StringPtr) {},
               kj::Own<AuditTrail>(kj::refcounted<Trail>(kept)))
        .castAs<rpc::Services>();
  }
  kj::Promise<kj::String> restart(rpc::Services::Client services, kj::StringPtr id) {
    auto request = services.restartRequest();
    request.setId(id);
    return request.send().then([](auto&& r) { return kj::str(r.getResponse()); });
  }
};

// Catches: a connection that closes while a call over it is under way, because the caller holds
// only the call: apid's gate keeps it open by what it passes to attenuate().
TEST_F(Audit, ACallHoldsWhatItsMembraneHolds) {
  bool gone = false;
  auto guard = kj::heap(kj::defer([&gone]() { gone = true; }));
  rpc::Services::Client services =
      attenuate(
          rules, rpc::Services::Client(kj::heap<FakeServices>(kept)),
          kj::arr(kj::str("os:operator")), [guard = kj::mv(guard)](kj::StringPtr, kj::StringPtr) {},
          kj::Own<AuditTrail>(kj::refcounted<Trail>(kept)))
          .castAs<rpc::Services>();
  auto request = services.stopRequest();  // FakeServices never answers it
  request.setId("apid");
  auto call = kj::heap(request.send().ignoreResult());
  {
    auto dropped = kj::mv(services);
  }
  EXPECT_FALSE(call->poll(scope));
  EXPECT_FALSE(gone);
  call = nullptr;
  scope.poll();
  EXPECT_TRUE(gone);
}

// Catches: a call that changes something and is not recorded; a read-only call that is recorded; an
// answer that is lost on the way; an outcome that is not the call's.
TEST_F(Audit, EachCallIsRecordedWithItsOutcome) {
  auto services = servicesFor("os:operator");
  EXPECT_EQ(restart(services, "apid").wait(scope), "restarted"_kj);
  services.listRequest().send().wait(scope);
  auto e = kj::runCatchingExceptions([&] { restart(services, "x").wait(scope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kNotFound);
  ASSERT_EQ(kept.calls.size(), 2u);
  EXPECT_EQ(kept.calls[0].text, "Services.restart(id: \"apid\")"_kj);
  EXPECT_EQ(kept.calls[0].outcome, "ok"_kj);
  EXPECT_EQ(kept.calls[0].duration, 7 * kj::MILLISECONDS);
  EXPECT_EQ(kept.calls[1].outcome, "NotFound: no such service"_kj);
  EXPECT_FALSE(kept.calls[1].refused);
}

// Catches: a refused call that is not recorded, or is made anyway.
TEST_F(Audit, RefusedCallsToo) {
  auto services = servicesFor("os:reader");
  auto e = kj::runCatchingExceptions([&] { restart(services, "apid").wait(scope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kPermissionDenied);
  EXPECT_EQ(kept.time, kj::origin<kj::TimePoint>());
  ASSERT_EQ(kept.calls.size(), 1u);
  EXPECT_EQ(kept.calls[0].text, "Services.restart(id: \"apid\")"_kj);
  EXPECT_EQ(kept.calls[0].outcome,
            "PermissionDenied: Services.restart needs the role os:operator; this caller has "
            "os:reader"_kj);
  EXPECT_TRUE(kept.calls[0].refused);
}

// Catches: an answer that is sent before the record is kept, after which a machine may stop.
TEST_F(Audit, TheAnswerWaitsForTheRecord) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  kept.slow = paf.promise.fork();
  auto answer = restart(servicesFor("os:operator"), "apid");
  EXPECT_FALSE(answer.poll(scope));
  EXPECT_EQ(kept.calls.size(), 1u);
  paf.fulfiller->fulfill();
  EXPECT_EQ(answer.wait(scope), "restarted"_kj);
}

// Catches: a caller that hides a call by not waiting for the answer.
TEST_F(Audit, ADroppedCallIsRecorded) {
  {
    auto request = servicesFor("os:operator").stopRequest();
    request.setId("apid");
    auto call = request.send();
    EXPECT_FALSE(call.poll(scope));
    EXPECT_EQ(kept.calls.size(), 0u);
  }
  scope.poll();
  ASSERT_EQ(kept.calls.size(), 1u);
  EXPECT_EQ(kept.calls[0].text, "Services.stop(id: \"apid\")"_kj);
  EXPECT_EQ(kept.calls[0].outcome, "the caller disconnected before the call ended"_kj);
}

// Catches: documents and keys in the log; a line without end.
TEST(AuditText, LeavesDocumentsOutAndStaysShort) {
  capnp::MallocMessageBuilder message;
  auto params = message.initRoot<rpc::Configuration::ApplyParams>();
  auto request = params.initRequest();
  request.setDocument("token: abcdef.0123456789abcdef"_kj.asBytes());
  request.setMode(rpc::ApplyMode::NO_REBOOT);
  EXPECT_EQ(describeCall("Configuration.apply", params.asReader()),
            "Configuration.apply(request: (document: 30 bytes, mode: noReboot))"_kj);

  capnp::MallocMessageBuilder metaMessage;
  auto meta = metaMessage.initRoot<rpc::Storage::WriteMetaParams>();
  meta.setKey(9);
  meta.setValue("secret"_kj.asBytes());
  EXPECT_EQ(describeCall("Storage.writeMeta", meta.asReader()),
            "Storage.writeMeta(key: 9, value: 6 bytes)"_kj);

  capnp::MallocMessageBuilder pairMessage;  // its key is $secret
  auto pair = pairMessage.initRoot<rpc::KeyPair>();
  pair.setKey("secret"_kj.asBytes());
  EXPECT_EQ(describeCall("x", pair.asReader()), "x(key: ***)"_kj);

  capnp::MallocMessageBuilder rolesMessage;
  auto certificate = rolesMessage.initRoot<rpc::Machine::ClientCertificateParams>();
  auto roles = certificate.initRoles(1000);
  auto longest = kj::heapString(500);
  for (size_t i = 0; i + 1 < 500; i += 2) {  // two bytes each, and an odd one before the cut
    longest[i] = '\xc3';
    longest[i + 1] = '\xa4';
  }
  for (unsigned i = 0; i < 1000; ++i) roles.set(i, longest);
  auto text = describeCall("Machine.clientCertificate", certificate.asReader());
  EXPECT_LE(text.size(), kLongestCall + 3);
  EXPECT_TRUE(text.endsWith("...")) << text.cStr();
  EXPECT_NE(text[text.size() - 4], '\xc3');
}

}  // namespace
}  // namespace talos
