#include "common/kube/kube-api.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::kube {
namespace {

TEST(KubeApi, PathsOfResources) {
  EXPECT_EQ(pathOf(coreResource("pods", "Pod"), ""), "/api/v1/pods"_kj);
  EXPECT_EQ(pathOf(coreResource("pods", "Pod"), "kube-system", "a b", "eviction"),
            "/api/v1/namespaces/kube-system/pods/a%20b/eviction"_kj);
  EXPECT_EQ(pathOf(coreResource("nodes", "Node", false), "ignored", "m-1"), "/api/v1/nodes/m-1"_kj);
  auto path = pathOf(appsResource("daemonsets", "DaemonSet"), "kube-system");
  addQuery(path, "labelSelector", "k8s-app=kube-proxy");
  addQuery(path, "limit", "5");
  EXPECT_EQ(path,
            "/apis/apps/v1/namespaces/kube-system/daemonsets?labelSelector=k8s-app%3Dkube-proxy&"
            "limit=5"_kj);
  // A name from elsewhere leads nowhere else.
  EXPECT_EQ(pathOf(coreResource("nodes", "Node", false), "", "../x?y"),
            "/api/v1/nodes/..%2Fx%3Fy"_kj);
}

TEST(KubeApi, ApiVersions) {
  EXPECT_EQ(pathOf(readApiVersion("v1")), "/api/v1"_kj);
  EXPECT_EQ(pathOf(readApiVersion("rbac.authorization.k8s.io/v1")),
            "/apis/rbac.authorization.k8s.io/v1"_kj);
  for (auto wrong : {"", "/v1", "a/", "a/b/c"}) {
    EXPECT_NE(kj::runCatchingExceptions([&]() { readApiVersion(wrong); }), nullptr) << wrong;
  }
}

TEST(KubeApi, KindsAreFoundBesideTheirSubresources) {
  auto listed = readJson(
      R"({"resources":[{"name":"pods/status","kind":"Pod","namespaced":true},)"
      R"({"name":"pods","kind":"Pod","namespaced":true},{"name":"nodes","kind":"Node"}]})"_kj,
      "the test");
  auto core = readApiVersion("v1");
  EXPECT_EQ(KJ_ASSERT_NONNULL(resourceOf(listed, core, "Pod")).plural, "pods"_kj);
  EXPECT_FALSE(KJ_ASSERT_NONNULL(resourceOf(listed, core, "Node")).namespaced);
  EXPECT_EQ(resourceOf(listed, core, "Nope"), nullptr);
}

// Catches: a kind that a caller acts wrongly on; a stranger's bytes on the terminal.
TEST(KubeApi, ErrorsAreTheServersWords) {
  auto errorFor = [](unsigned status, kj::StringPtr body) {
    auto e = errorOf(status, "Text\n", body, "get nodes/a");
    return kj::str(nameOf(kindOf(e)), " ", messageOf(e));
  };
  auto notFound = R"({"kind":"Status","message":"nodes \"a\" not found","reason":"NotFound"})"_kj;
  EXPECT_EQ(errorFor(404, notFound), "NotFound cannot get nodes/a: nodes \"a\" not found"_kj);
  EXPECT_EQ(errorFor(403, "forbidden"), "PermissionDenied cannot get nodes/a: 403 Text "_kj);
  EXPECT_EQ(errorFor(401, ""), "Unauthenticated cannot get nodes/a: 401 Text "_kj);
  EXPECT_EQ(errorFor(409, ""), "Conflict cannot get nodes/a: 409 Text "_kj);
  EXPECT_EQ(errorFor(410, ""), "Conflict cannot get nodes/a: 410 Text "_kj);
  EXPECT_EQ(errorFor(422, ""), "InvalidArgument cannot get nodes/a: 422 Text "_kj);
  EXPECT_EQ(errorFor(429, ""), "ResourceExhausted cannot get nodes/a: 429 Text "_kj);
  EXPECT_EQ(errorFor(503, R"({"kind":"Pod"})"), "Unavailable cannot get nodes/a: 503 Text "_kj);

  EXPECT_TRUE(saysAlreadyExists(409, R"({"kind":"Status","reason":"AlreadyExists"})"_kj));
  EXPECT_FALSE(saysAlreadyExists(409, R"({"kind":"Status","reason":"Conflict"})"_kj));
  EXPECT_FALSE(saysAlreadyExists(404, R"({"kind":"Status","reason":"AlreadyExists"})"_kj));
}

// Catches: an administrator whose field is overwritten because the answer was not understood.
TEST(KubeApi, ConflictsOfFieldsAreRead) {
  auto body = R"({"kind":"Status","code":409,"reason":"Conflict","details":{"causes":[
      {"reason":"FieldManagerConflict","field":".spec.replicas",
       "message":"conflict with \"kubectl-edit\" with subresource \"scale\" using apps/v1"},
      {"reason":"FieldValueInvalid","field":".spec"},
      {"reason":"FieldManagerConflict","field":".data.a","message":"conflict"}, 7]}})"_kj;
  auto conflicts = conflictsOf(body);
  ASSERT_EQ(conflicts.size(), 2u);
  EXPECT_EQ(conflicts[0].manager, "kubectl-edit"_kj);
  EXPECT_EQ(conflicts[0].field, ".spec.replicas"_kj);
  EXPECT_EQ(conflicts[1].manager, ""_kj);
  for (auto other : {"", "x", "{}", R"({"kind":"Status","details":{"causes":{}}})"}) {
    EXPECT_EQ(conflictsOf(kj::StringPtr(other)).size(), 0u) << other;
  }
}

// Catches: a server that is about to end and is taken for one that has failed.
TEST(KubeApi, FailedChecksAreNamed) {
  auto body = "[+]ping ok\n[-]shutdown failed: reason withheld\n[-]etcd failed\nreadyz failed"_kj;
  EXPECT_EQ(failedChecks(body), "[-]shutdown failed: reason withheld, [-]etcd failed"_kj);
  EXPECT_EQ(failedChecks(""_kj), ""_kj);
  EXPECT_EQ(failedChecks("[-]"_kj), ""_kj);
  // Forty that pass come before it, in the answer of a real server.
  std::string last;
  for (int i = 0; i < 40; ++i) last += "[+]poststarthook/" + std::string(40, 'x') + " ok\n";
  last += "[-]shutdown failed: reason withheld\nreadyz check failed\n";
  EXPECT_EQ(failedChecks(kj::arrayPtr(last.data(), last.size())),
            "[-]shutdown failed: reason withheld"_kj);
  auto many = std::string("[-]a\n[-]") + std::string(1000, 'x');
  EXPECT_EQ(failedChecks(kj::arrayPtr(many.data(), many.size())), "[-]a"_kj);
}

TEST(KubeApi, RetryAfterIsANumberOfSeconds) {
  EXPECT_EQ(KJ_ASSERT_NONNULL(readRetryAfter("7")), 7 * kj::SECONDS);
  EXPECT_EQ(KJ_ASSERT_NONNULL(readRetryAfter("100000")), 1 * kj::MINUTES);
  EXPECT_EQ(readRetryAfter("Fri, 31 Dec 1999 23:59:59 GMT"), nullptr);
}

TEST(KubeApi, EventsOfAWatch) {
  auto event = readWatchEvent(R"({"type":"MODIFIED","object":{"kind":"Node"}})"_kj);
  EXPECT_EQ(event.type, WatchEvent::Type::kModified);
  EXPECT_EQ(textAt(event.object, {"kind"}), "Node"_kj);
  auto kindOfLine = [](kj::StringPtr line) {
    return kindOf(KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&]() { readWatchEvent(line); })));
  };
  EXPECT_EQ(kindOfLine(R"({"type":"ERROR","object":{"kind":"Status","code":410}})"),
            ErrorKind::kConflict);
  EXPECT_EQ(kindOfLine(R"({"type":"ADDED"})"), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kindOfLine(R"({"type":"X","object":{}})"), ErrorKind::kInvalidArgument);
}

TEST(KubeApi, LinesComeInPieces) {
  LineAssembler lines(4);
  EXPECT_EQ(lines.add("ab"_kj.asArray()).size(), 0u);
  auto two = lines.add("c\n\nde\nf"_kj.asArray());
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0], "abc"_kj);
  EXPECT_EQ(two[1], "de"_kj);
  EXPECT_EQ(lines.add("ghi\n"_kj.asArray())[0], "fghi"_kj);
  auto failure = kj::runCatchingExceptions([&]() { lines.add("abcde"_kj.asArray()); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
            "a line of the answer is longer than 4 bytes"_kj);
}

}  // namespace
}  // namespace talos::kube
