#include "common/kube/kubeconfig-merge.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "common/kube/kubeconfig.h"

namespace talos::kube {
namespace {

class KubeconfigMerge : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  MergeChoice choice = MergeChoice::kRename;
  kj::Vector<kj::String> asked;

  ~KubeconfigMerge() noexcept override {}

  static ReceivedKubeconfig of(kj::StringPtr cluster,
                               kj::StringPtr server = "https://10.5.0.1:6443") {
    return {.cluster = kj::str(cluster),
            .user = kj::str("admin@", cluster),
            .context = kj::str("admin@", cluster),
            .nameSpace = kj::str("default"),
            .server = kj::str(server),
            .tlsName = {},
            .authority = kj::str("CA"),
            .certificate = kj::str("CERT"),
            .key = pki::Pem(kj::str(server))};
  }
  static Json fileOf(kj::StringPtr cluster) {
    return kj::mv(readYaml(kj::StringPtr(of(cluster).text()), "kubeconfig")[0]);
  }
  MergedKubeconfig merge(Json existing, ReceivedKubeconfig added, kj::StringPtr contextName = "") {
    asked.clear();
    MergeOptions options{
        contextName, [this](const MergeKind& kind, kj::StringPtr name) -> kj::Promise<MergeChoice> {
          asked.add(kj::str(kind.asked, " ", name));
          return choice;
        }};
    return mergeKubeconfig(kj::mv(existing), kj::mv(added), kj::mv(options)).wait(scope);
  }
  static kj::String namesOf(const Json& config) {
    kj::Vector<kj::String> names;
    for (auto list : {"clusters", "users", "contexts"}) {
      for (auto entry : itemsAt(config, {list})) names.add(kj::str(textAt(*entry, {"name"})));
    }
    return kj::strArray(names, " ");
  }
};

// Catches: a user's other context that is switched, another cluster's or another user's credentials
// that are replaced, entries that the user has renamed and that keep the old CA.
TEST_F(KubeconfigMerge, ARenewalChangesWhatLeadsToTheServerOnly) {
  auto authority = pki::makeAuthority({.organization = "kubernetes"});
  auto client = [&](kj::StringPtr name, kj::StringPtr cluster, kj::StringPtr server) {
    auto made =
        pki::issue(authority.certificate, authority.key, {.commonName = name, .server = false});
    auto one = of(cluster, server);
    one.user = kj::str(name, "@", cluster);
    one.context = kj::str(name, "@", cluster);
    one.certificate = kj::mv(made.certificate);
    one.key = kj::mv(made.key);
    return one;
  };
  auto here = "https://127.7.0.2:6443"_kj, there = "https://10.0.0.1:6443"_kj;
  choice = MergeChoice::kRename;
  auto config = merge(nullptr, client("admin", "demo", here), "renamed").config;
  config = merge(kj::mv(config), client("viewer", "demo", here)).config;
  config = merge(kj::mv(config), client("admin", "other", there)).config;
  auto before = config;
  auto fresh = client("admin", "demo", here);
  fresh.authority = kj::str("NEW CA");
  EXPECT_TRUE(renewKubeconfig(config, fresh));
  EXPECT_EQ(textAt(config, {"current-context"}), "admin@other"_kj);
  EXPECT_EQ(namesOf(config), namesOf(before));
  auto at = [](const Json& of, kj::StringPtr list, size_t index, JsonPath path) {
    return kj::str(textAt(*itemsAt(of, {list})[index], path));
  };
  EXPECT_EQ(at(config, "clusters", 0, {"cluster", "certificate-authority-data"}),
            kj::encodeBase64("NEW CA"_kj.asBytes()));
  EXPECT_EQ(at(config, "users", 0, {"user", "client-certificate-data"}),
            kj::encodeBase64(fresh.certificate.asBytes()));
  EXPECT_TRUE(config["users"][1] == before["users"][1]) << "viewer@demo";
  EXPECT_TRUE(config["clusters"][1] == before["clusters"][1]) << "other";
  EXPECT_TRUE(config["users"][2] == before["users"][2]) << "admin@other";
  fresh.server = kj::str("https://127.7.0.3:6443");
  auto now = config;
  EXPECT_FALSE(renewKubeconfig(config, fresh));
  EXPECT_TRUE(config == now);
}

TEST_F(KubeconfigMerge, AnEmptyFileGetsEverything) {
  auto merged = merge(nullptr, of("c1"));
  EXPECT_EQ(namesOf(merged.config), "c1 admin@c1 admin@c1"_kj);
  EXPECT_EQ(textAt(merged.config, {"current-context"}), "admin@c1"_kj);
  EXPECT_EQ(textAt(merged.config, {"kind"}), "Config"_kj);
}

// Catches: the same file merged twice that grows, and a question about nothing.
TEST_F(KubeconfigMerge, EqualEntriesAreNoConflict) {
  auto merged = merge(fileOf("c1"), of("c1"));
  EXPECT_EQ(namesOf(merged.config), "c1 admin@c1 admin@c1"_kj);
  EXPECT_EQ(asked.size() + merged.renames.size(), 0u);
}

// Catches: a file that kubectl has rewritten, with its keys sorted, as a conflict.
TEST_F(KubeconfigMerge, TheOrderOfKeysDoesNotMatter) {
  auto sorted = readJson(toPtr(nlohmann::json(fileOf("c1")).dump()), "the test");
  ASSERT_NE(writeJson(sorted), writeJson(fileOf("c1")));
  auto merged = merge(sorted, of("c1"));
  EXPECT_EQ(namesOf(merged.config), "c1 admin@c1 admin@c1"_kj);
  EXPECT_EQ(asked.size() + merged.renames.size(), 0u);
  sorted["clusters"][0]["cluster"]["proxy-url"] = "http://10.0.0.1";
  merge(sorted, of("c1"));
  EXPECT_GT(asked.size(), 0u);
}

// Catches: anything of another cluster that is lost or changed.
TEST_F(KubeconfigMerge, OtherEntriesStay) {
  auto existing = fileOf("other");
  existing["preferences"] = {{"colors", true}};
  existing["users"].push_back({{"name", "aws"}, {"user", {{"exec", {{"command", "aws"}}}}}});
  auto merged = merge(existing, of("c1"));
  EXPECT_EQ(namesOf(merged.config), "other c1 admin@other aws admin@c1 admin@other admin@c1"_kj);
  EXPECT_TRUE(flagAt(merged.config, {"preferences", "colors"}));
  EXPECT_EQ(textAt(merged.config["users"][1], {"user", "exec", "command"}), "aws"_kj);
  EXPECT_EQ(textAt(merged.config, {"current-context"}), "admin@c1"_kj);
}

// Catches: a reference that still leads to the other cluster.
TEST_F(KubeconfigMerge, ARenameGoesThroughEverything) {
  auto merged = merge(fileOf("c1"), of("c1", "https://10.6.0.1:6443"));
  EXPECT_EQ(kj::strArray(merged.renames, "; "),
            "renamed cluster \"c1\" -> \"c1-1\"; "
            "renamed auth info \"admin@c1\" -> \"admin@c1-1\"; "
            "renamed context \"admin@c1\" -> \"admin@c1-1\""_kj);
  EXPECT_EQ(kj::strArray(asked, "; "), "cluster c1"_kj);
  auto& context = merged.config["contexts"][1]["context"];
  EXPECT_EQ(textAt(context, {"cluster"}), "c1-1"_kj);
  EXPECT_EQ(textAt(context, {"user"}), "admin@c1-1"_kj);
  EXPECT_EQ(textAt(context, {"namespace"}), "default"_kj);
  EXPECT_EQ(textAt(merged.config, {"current-context"}), "admin@c1-1"_kj);
  auto again = merge(merged.config, of("c1", "https://10.7.0.1:6443"));
  EXPECT_EQ(textAt(again.config, {"current-context"}), "admin@c1-2"_kj);
}

TEST_F(KubeconfigMerge, OverwritingKeepsTheNames) {
  choice = MergeChoice::kOverwrite;
  auto merged = merge(fileOf("c1"), of("c1", "https://10.6.0.1:6443"));
  EXPECT_EQ(namesOf(merged.config), "c1 admin@c1 admin@c1"_kj);
  EXPECT_EQ(textAt(merged.config["clusters"][0], {"cluster", "server"}),
            "https://10.6.0.1:6443"_kj);
  EXPECT_EQ(merged.renames.size(), 0u);
  EXPECT_EQ(kj::strArray(asked, "; "), "cluster c1; user admin@c1"_kj);
  EXPECT_EQ(kj::strArray(merged.replaced, "; "),
            "replaced cluster \"c1\"; replaced auth info \"admin@c1\""_kj);
}

// Catches: a proxy or a program that stays in an existing entry which the node's entry overwrites.
TEST_F(KubeconfigMerge, OverwritingLeavesNothingOfTheOldEntry) {
  choice = MergeChoice::kOverwrite;
  auto existing = fileOf("c1");
  existing["clusters"][0]["cluster"]["proxy-url"] = "http://10.0.0.1";
  auto merged = merge(existing, of("c1"));
  EXPECT_EQ(writeJson(merged.config["clusters"]), writeJson(fileOf("c1")["clusters"]));
}

TEST_F(KubeconfigMerge, TheNameOfTheCertificateIsMergedToo) {
  auto added = of("c1", "https://127.7.0.2:6443");
  added.tlsName = kj::str("10.5.0.1");
  auto merged = merge(nullptr, kj::mv(added));
  EXPECT_EQ(textAt(merged.config["clusters"][0], {"cluster", "tls-server-name"}), "10.5.0.1"_kj);
}

// Catches: a context that is looked for among the clusters.
TEST_F(KubeconfigMerge, TheContextCanHaveANameOfItsOwn) {
  auto merged = merge(fileOf("work"), of("c1"), "work");
  EXPECT_EQ(namesOf(merged.config), "work c1 admin@work admin@c1 admin@work work"_kj);
  EXPECT_EQ(asked.size(), 0u);
  EXPECT_EQ(textAt(merged.config, {"current-context"}), "work"_kj);
}

TEST_F(KubeconfigMerge, TextThatIsNoKubeconfigIsRefused) {
  for (auto& existing : {Json(Json::array()), Json{{"users", 1}}}) {
    auto failed = kj::runCatchingExceptions([&]() { merge(existing, of("c1")); });
    EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)), "the existing file is not a kubeconfig"_kj);
  }
}

}  // namespace
}  // namespace talos::kube
