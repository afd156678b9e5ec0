#include "common/kube/kube-client.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"
#include "common/testing/virtual-time.h"
#include "common/tls/tls.h"

namespace talos::kube {
namespace {

class KubeClientTest : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelKube model{timer};
  KubeClient client{timer, [] { return 0.0; }, model.dialer(), ModelKube::access()};

  KubeClientTest() { model.addUsualKinds(); }
  ~KubeClientTest() noexcept override {}

  static Resource pods() { return coreResource("pods", "Pod"); }
  static Resource nodes() { return coreResource("nodes", "Node", false); }
  static Json named(kj::StringPtr name) { return {{"metadata", {{"name", name.cStr()}}}}; }

  // Returns the error of a call, as "Kind message".
  template <typename T>
  kj::String failureOf(kj::Promise<T> promise) {
    auto failed = kj::runCatchingExceptions([&]() { promise.wait(scope); });
    KJ_IF_MAYBE (e, failed) return kj::str(nameOf(kindOf(*e)), " ", messageOf(*e));
    return kj::str("it did not fail");
  }
};

TEST_F(KubeClientTest, AnObjectIsAskedForWithTheToken) {
  model.put("/api/v1/nodes/m-1", named("m-1"));
  auto node = client.get(nodes(), "", "m-1").wait(scope);
  EXPECT_EQ(textAt(node, {"metadata", "name"}), "m-1"_kj);
  EXPECT_EQ(model.asked.at(0).authorization, "Bearer secret-token");
  EXPECT_EQ(failureOf(client.get(nodes(), "", "m-2")),
            "NotFound Kubernetes at model:6443: cannot get nodes/m-2: "
            "\"/api/v1/nodes/m-2\" not found"_kj);
}

// Catches: a list that ends with its first page; a list that starts again for ever.
TEST_F(KubeClientTest, ListsComeInPages) {
  for (unsigned i = 0; i < 2 * kPageSize + 1; ++i) {
    model.put(kj::str("/api/v1/namespaces/a/pods/p", 1000 + i), named("p"));
  }
  auto listed = client.list(pods()).wait(scope);
  EXPECT_EQ(listed.items.size(), 2 * kPageSize + 1);
  EXPECT_EQ(model.asked.size(), 3u);
  EXPECT_GT(listed.version.size(), 0u);

  unsigned refusals = 0;
  model.instead = [&](auto& asked) -> kj::Maybe<ModelKube::Reply> {
    if (asked.path.find("continue=") == std::string::npos || ++refusals > 1) return nullptr;
    return ModelKube::Reply{410, R"({"kind":"Status","reason":"Expired"})", ""};
  };
  EXPECT_EQ(client.list(pods()).wait(scope).items.size(), 2 * kPageSize + 1);
  refusals = 0;
  model.instead = [&](auto& asked) -> kj::Maybe<ModelKube::Reply> {
    if (asked.path.find("continue=") == std::string::npos) return nullptr;
    return ModelKube::Reply{410, "", ""};
  };
  EXPECT_EQ(failureOf(client.list(pods())),
            "Conflict Kubernetes at model:6443: cannot list pods: 410 Text"_kj);
}

TEST_F(KubeClientTest, SelectorsAreSent) {
  model.put("/api/v1/namespaces/a/pods/x",
            {{"metadata", {{"name", "x"}, {"labels", {{"k8s-app", "coredns"}}}}},
             {"spec", {{"nodeName", "m-1"}}}});
  model.put("/api/v1/namespaces/a/pods/y", named("y"));
  EXPECT_EQ(client.list(pods(), "", {.labels = "k8s-app=coredns"}).wait(scope).items.size(), 1u);
  EXPECT_EQ(client.list(pods(), "a", {.fields = "spec.nodeName=m-1"}).wait(scope).items.size(), 1u);
  EXPECT_EQ(client.list(pods(), "b").wait(scope).items.size(), 0u);
}

TEST_F(KubeClientTest, ExistingObjectIsNotCreated) {
  EXPECT_NE(client.create(pods(), "a", named("x"), "talos").wait(scope), nullptr);
  EXPECT_EQ(model.asked.back().path, "/api/v1/namespaces/a/pods?fieldManager=talos");
  EXPECT_EQ(client.create(pods(), "a", named("x"), "talos").wait(scope), nullptr);
  EXPECT_EQ(model.count(), 1u);
}

TEST_F(KubeClientTest, PatchesSayOfWhichKindTheyAre) {
  model.put("/api/v1/nodes/m-1", named("m-1"));
  Json change{{"spec", {{"unschedulable", true}}}};
  auto type = [&](Patch how) {
    auto patched = client.patch(how, nodes(), "", "m-1", change, "talos").wait(scope);
    EXPECT_TRUE(flagAt(patched, {"spec", "unschedulable"}));
    return model.asked.back().contentType;
  };
  EXPECT_EQ(type(Patch::kMerge), "application/merge-patch+json");
  EXPECT_EQ(type(Patch::kStrategic), "application/strategic-merge-patch+json");
  EXPECT_EQ(model.asked.back().path, "/api/v1/nodes/m-1?fieldManager=talos");
  EXPECT_EQ(type(Patch::kApply), "application/apply-patch+yaml");
  EXPECT_EQ(model.asked.back().path, "/api/v1/nodes/m-1?fieldManager=talos&force=true");
}

TEST_F(KubeClientTest, DeletionOfAMissingObjectSucceeds) {
  model.put("/api/v1/namespaces/a/pods/x", named("x"));
  EXPECT_TRUE(client.remove(pods(), "a", "x").wait(scope));
  EXPECT_FALSE(client.remove(pods(), "a", "x").wait(scope));
}

// Catches: an object that is removed although it has changed, or is another one of that name.
TEST_F(KubeClientTest, DeletedOnlyAsItWasRead) {
  auto object = named("x");
  object["metadata"]["uid"] = "u-1";
  model.put("/api/v1/namespaces/a/pods/x", object);
  auto version = [&] {
    auto read = client.get(pods(), "a", "x").wait(scope);
    return kj::str(textAt(read, {"metadata", "resourceVersion"}));
  };
  auto before = version();
  model.put("/api/v1/namespaces/a/pods/x", object);
  auto remove = [&](kj::StringPtr uid, kj::StringPtr number) {
    return client.remove(pods(), "a", "x", Version{uid, number});
  };
  EXPECT_TRUE(failureOf(remove("u-1", before)).startsWith("Conflict"));
  EXPECT_TRUE(failureOf(remove("u-2", version())).startsWith("Conflict"));
  EXPECT_TRUE(remove("u-1", version()).wait(scope));
  EXPECT_FALSE(remove("u-1", before).wait(scope));
}

// Catches: a client that retries at once although the server asked for a pause; a client that waits
// for ever.
TEST_F(KubeClientTest, AServerThatWantsAPauseGetsIt) {
  model.put("/api/v1/nodes/m-1", named("m-1"));
  unsigned refusals = 2;
  model.instead = [&](auto&) -> kj::Maybe<ModelKube::Reply> {
    if (refusals == 0) return nullptr;
    --refusals;
    return ModelKube::Reply{429, "", "7"};
  };
  auto asking = client.get(nodes(), "", "m-1");
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ(model.asked.size(), 1u);
  advance(timer, scope, 2 * kj::SECONDS);
  EXPECT_EQ(model.asked.size(), 2u);
  advance(timer, scope, 7 * kj::SECONDS);
  EXPECT_EQ(textAt(asking.wait(scope), {"metadata", "name"}), "m-1"_kj);

  refusals = 1000;
  auto again = client.get(nodes(), "", "m-1");
  advance(timer, scope, kCallDeadline);
  EXPECT_EQ(failureOf(kj::mv(again)),
            "ResourceExhausted Kubernetes at model:6443: cannot get nodes/m-1: 429 Text"_kj);
  EXPECT_LE(model.asked.size(), 8u);
}

TEST_F(KubeClientTest, AServerThatSaysNothingIsLeft) {
  KubeClient silent(
      timer, [] { return 0.0; },
      []() -> kj::Promise<kj::Own<kj::AsyncIoStream>> { return kj::NEVER_DONE; },
      ModelKube::access());
  auto asking = silent.get(nodes(), "", "m-1");
  advance(timer, scope, kCallDeadline);
  EXPECT_EQ(
      failureOf(kj::mv(asking)),
      "DeadlineExceeded Kubernetes at model:6443: cannot get nodes/m-1: no answer within 30s"_kj);
}

// Catches: a write that is made twice because the connection broke; a read that fails because a
// kept connection was closed.
TEST_F(KubeClientTest, OnlyReadsAreRepeatedWhenAConnectionBreaks) {
  model.put("/api/v1/nodes/m-1", named("m-1"));
  auto dial = model.dialer();
  unsigned broken = 0;
  KubeClient flaky(
      timer, [] { return 0.0; },
      [&]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
        if (broken == 0) return dial();
        --broken;
        auto pipe = kj::newTwoWayPipe();
        return kj::mv(pipe.ends[0]);  // the other end closes at once
      },
      ModelKube::access());
  broken = 1;
  EXPECT_EQ(textAt(flaky.get(nodes(), "", "m-1").wait(scope), {"metadata", "name"}), "m-1"_kj);
  broken = 1;
  timer.advanceTo(timer.now() + 1 * kj::MINUTES);  // kept connections are closed
  scope.poll();
  auto asked = model.asked.size();
  auto failure = failureOf(flaky.create(pods(), "a", named("x"), "talos"));
  EXPECT_TRUE(failure.startsWith("Unavailable Kubernetes at model:6443: ")) << failure.cStr();
  EXPECT_EQ(model.asked.size(), asked);
}

TEST_F(KubeClientTest, ConnectionsAreKept) {
  model.put("/api/v1/nodes/m-1", named("m-1"));
  for (int i = 0; i < 5; ++i) client.get(nodes(), "", "m-1").wait(scope);
  EXPECT_EQ(model.connections, 1u);
}

TEST_F(KubeClientTest, AnAnswerThatIsTooLargeIsRefused) {
  model.instead = [](auto&) -> kj::Maybe<ModelKube::Reply> {
    return ModelKube::Reply{200, std::string(kMostAnswer + 1, ' '), ""};
  };
  EXPECT_EQ(failureOf(client.get(nodes(), "", "m-1")),
            "ResourceExhausted Kubernetes at model:6443: the answer is larger than 8192 KiB"_kj);
}

TEST_F(KubeClientTest, KindsAreAskedForOnce) {
  auto resource = client.resource("apps/v1", "DaemonSet").wait(scope);
  EXPECT_EQ(resource.plural, "daemonsets"_kj);
  EXPECT_EQ(client.resource("apps/v1", "ReplicaSet").wait(scope).plural, "replicasets"_kj);
  EXPECT_EQ(model.asked.size(), 1u);
  EXPECT_EQ(failureOf(client.resource("apps/v1", "Widget")),
            "NotFound Kubernetes at model:6443: it knows no kind Widget of apps/v1"_kj);
  EXPECT_EQ(failureOf(client.resource("nope/v1", "Widget")),
            "NotFound Kubernetes at model:6443: it knows no kind Widget of nope/v1"_kj);
  // The kind of a custom resource is added later.
  Resource widget{kj::str("apps"), kj::str("v1"), kj::str("widgets"), kj::str("Widget"), true};
  model.addKind(kj::mv(widget));
  EXPECT_EQ(client.resource("apps/v1", "Widget").wait(scope).plural, "widgets"_kj);
}

TEST_F(KubeClientTest, AWatchReportsEachChange) {
  model.put("/api/v1/nodes/m-1", named("m-1"));
  auto listed = client.list(nodes()).wait(scope);
  auto watch = client.watch(nodes(), "", {}, listed.version).wait(scope);
  auto next = watch->next();
  EXPECT_FALSE(next.poll(scope));
  model.put("/api/v1/nodes/m-2", named("m-2"));
  auto added = KJ_ASSERT_NONNULL(next.wait(scope));
  EXPECT_EQ(added.type, WatchEvent::Type::kAdded);
  EXPECT_EQ(textAt(added.object, {"metadata", "name"}), "m-2"_kj);
  model.drop("/api/v1/nodes/m-1");
  EXPECT_EQ(KJ_ASSERT_NONNULL(watch->next().wait(scope)).type, WatchEvent::Type::kDeleted);

  model.instead = [](auto&) -> kj::Maybe<ModelKube::Reply> {
    return ModelKube::Reply{200, "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n", ""};
  };
  auto old = client.watch(nodes(), "", {}, "1").wait(scope);
  auto failure = failureOf(old->next());
  EXPECT_TRUE(failure.startsWith("Conflict ")) << failure.cStr();
  model.instead = [](auto&) -> kj::Maybe<ModelKube::Reply> {
    return ModelKube::Reply{200, "", ""};
  };
  EXPECT_EQ(client.watch(nodes(), "", {}, "1").wait(scope)->next().wait(scope), nullptr);
  model.instead = [](auto&) -> kj::Maybe<ModelKube::Reply> {
    return ModelKube::Reply{403, "", ""};
  };
  EXPECT_EQ(failureOf(client.watch(nodes(), "", {}, "1")),
            "PermissionDenied Kubernetes at model:6443: cannot watch nodes: 403 Text"_kj);
}

// --- over TLS, on the loopback interface ---

class KubeDialTest : public testing::Test {
 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  ModelKube model{io.provider->getTimer()};
  pki::CertificateAndKey authority = pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256});
  kj::Own<kj::ConnectionReceiver> listener = listen();
  TlsEndpoint server{issued("server", "127.0.0.1")};
  kj::Promise<void> serving = serve().eagerlyEvaluate([](kj::Exception&&) {});

  KubeDialTest() { model.addUsualKinds(); }
  ~KubeDialTest() noexcept override {}

  Credentials issued(kj::StringPtr name, kj::StringPtr address) {
    pki::LeafOptions options;
    options.commonName = name;
    options.addresses = kj::arr(kj::str(address));
    auto pair = pki::issue(authority.certificate, authority.key, kj::mv(options));
    return {kj::str(authority.certificate), kj::mv(pair.certificate), kj::mv(pair.key)};
  }
  kj::Own<kj::ConnectionReceiver> listen() {
    int fd;
    KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd owned(fd);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
    KJ_SYSCALL(::listen(fd, 16));
    return io.lowLevelProvider->wrapListenSocketFd(kj::mv(owned));
  }
  kj::Promise<void> serve() {
    for (;;) {
      auto stream = co_await listener->accept();
      auto secured = server.accept(kj::mv(stream), kj::str("client"));
      auto one = secured.then([this](TlsEndpoint::Accepted&& accepted) {
        return model.serve(kj::mv(accepted.stream));
      });
      connections.add(kj::mv(one));
    }
  }
  KubeAccess access() {
    auto client = issued("admin", "10.0.0.1");
    KubeAccess access;
    access.host = kj::str("127.0.0.1");
    access.port = static_cast<uint16_t>(listener->getPort());
    access.authority = kj::mv(client.authorities);
    access.tlsName = kj::str(access.host);
    access.certificate = kj::mv(client.certificate);
    access.key = kj::mv(client.key);
    return access;
  }
  kj::Promise<Json> getWith(KubeAccess access) {
    auto& timer = io.provider->getTimer();
    auto dial = dialerOf({*io.lowLevelProvider, io.unixEventPort, timer}, access);
    auto client = kj::heap<KubeClient>(timer, [] { return 0.0; }, kj::mv(dial), kj::mv(access));
    auto asking = client->get(coreResource("nodes", "Node", false), "", "m-1");
    return asking.attach(kj::mv(client));
  }
  ErrorKind kindOfFailure(KubeAccess access) {
    auto failed = kj::runCatchingExceptions([&]() { getWith(kj::mv(access)).wait(io.waitScope); });
    return kindOf(KJ_ASSERT_NONNULL(failed));
  }

  struct Quiet final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}
  } quiet;
  kj::TaskSet connections{quiet};
};

TEST_F(KubeDialTest, TheClientShowsItsCertificate) {
  model.put("/api/v1/nodes/m-1", {{"metadata", {{"name", "m-1"}}}});
  auto node = getWith(access()).wait(io.waitScope);
  EXPECT_EQ(textAt(node, {"metadata", "name"}), "m-1"_kj);
  EXPECT_EQ(model.asked.at(0).authorization, "");
}

// Catches: a client that does not verify its server.
TEST_F(KubeDialTest, AServerOfAnotherNameOrAuthorityIsRefused) {
  auto other = access();
  other.tlsName = kj::str("127.0.0.2");
  EXPECT_EQ(kindOfFailure(kj::mv(other)), ErrorKind::kUnauthenticated);
  auto stranger = access();
  stranger.authority = pki::makeAuthority({}).certificate;
  EXPECT_EQ(kindOfFailure(kj::mv(stranger)), ErrorKind::kUnauthenticated);
  EXPECT_EQ(model.asked.size(), 0u);
  auto nobody = access();
  listener = nullptr;
  serving = nullptr;
  EXPECT_EQ(kindOfFailure(kj::mv(nobody)), ErrorKind::kUnavailable);
}

// Catches: an eviction in a version that the server does not know; an eviction that ends another
// pod that has taken the name; a budget that is taken for a failure, or for consent.
TEST_F(KubeClientTest, PodsAreAskedToLeave) {
  using Outcome = KubeClient::Eviction::Outcome;
  constexpr auto kGrace = 60 * kj::SECONDS;
  auto evict = [&](kj::StringPtr name, kj::StringPtr uid = "u-1") {
    return client.evict("a", name, uid, kGrace).wait(scope).outcome;
  };
  model.policyVersion = "v1beta1";
  model.put("/api/v1/namespaces/a/pods/x", {{"metadata", {{"name", "x"}, {"uid", "u-1"}}}});
  EXPECT_EQ(evict("x"), Outcome::kGoing);
  auto& sent = model.asked.back();
  EXPECT_EQ(sent.path, "/api/v1/namespaces/a/pods/x/eviction");
  EXPECT_EQ(writeJson(sent.body),
            R"({"kind":"Eviction","metadata":{"name":"x","namespace":"a"},"deleteOptions":)"
            R"({"gracePeriodSeconds":60,"preconditions":{"uid":"u-1"}},)"
            R"("apiVersion":"policy/v1beta1"})"_kj);
  EXPECT_EQ(evict("y"), Outcome::kGone);
  EXPECT_EQ(evict("x", "u-2"), Outcome::kRefused);
  model.instead = [&](auto& asked) -> kj::Maybe<ModelKube::Reply> {
    if (asked.method != "POST") return nullptr;
    return ModelKube::Reply{429, R"({"kind":"Status","message":"it would violate the budget"})",
                            ""};
  };
  auto refused = client.evict("a", "x", "u-1", kGrace).wait(scope);
  EXPECT_EQ(refused.outcome, Outcome::kRefused);
  EXPECT_STREQ(refused.message.cStr(), "cannot evict pods/x in a: it would violate the budget");
}

// Catches: a text that is cut off, or refused, where answers are; a last line without its end that
// is lost; an error whose text is taken for lines; a line without a bound.
TEST_F(KubeClientTest, LinesOfATextOfAnyLength) {
  ModelKube::Reply reply;
  model.instead = [&](auto&) -> kj::Maybe<ModelKube::Reply> { return reply; };
  size_t count = 0;
  std::string last;
  auto visit = [&] {
    count = 0;
    return client.visitLines("/metrics", [&](kj::StringPtr line) {
      ++count;
      last = line.cStr();
    });
  };
  auto line = std::string(1000, 'x') + "\n";
  while (reply.body.size() <= kMostAnswer) reply.body += line;
  auto lines = reply.body.size() / line.size();
  reply.body += "\nend";
  visit().wait(scope);
  EXPECT_EQ(count, lines + 1);
  EXPECT_EQ(last, "end");
  reply.body = "a\n" + std::string(kMostTextLine + 1, 'x') + "\nb\n";
  EXPECT_EQ(failureOf(visit()),
            "ResourceExhausted Kubernetes at model:6443: a line of the answer is longer than 65536 "
            "bytes"_kj);
  EXPECT_EQ(count, 1u);
  reply = {500, "a\nb\n", ""};
  EXPECT_EQ(failureOf(visit()),
            "Unavailable Kubernetes at model:6443: cannot get /metrics: 500 Text"_kj);
  EXPECT_EQ(count, 0u);
}

// Catches: an eviction that is sent to a server without evictions, or an error that does not say
// so.
TEST_F(KubeClientTest, AServerMayHaveNoEvictions) {
  model.policyVersion = "";
  EXPECT_EQ(failureOf(client.evict("a", "x", "u-1", 1 * kj::SECONDS)),
            "NotFound Kubernetes at model:6443: it does not evict pods"_kj);
}

}  // namespace
}  // namespace talos::kube
