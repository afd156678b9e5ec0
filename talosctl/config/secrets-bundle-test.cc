#include "talosctl/config/secrets-bundle.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <map>
#include <string>

#include "common/base/error.h"
#include "common/config/config.h"

namespace talos::config {
namespace {

template <typename F>
std::string failureOf(F&& f) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { f(); })) return messageOf(*e).cStr();
  return "no failure";
}

// Returns the text with a change in the first line that begins with `key` below `section`.
kj::String with(kj::StringPtr text, std::string section, std::string key, std::string value) {
  std::string all = text.cStr();
  auto from = section.empty() ? 0 : all.find(section);
  auto begin = all.find(key, from), end = all.find('\n', begin);
  return kj::str(all.replace(begin, end - begin, value).c_str());
}

// Returns the secrets of a cluster before v0.9, but without its RSA keys, which take seconds to
// generate.
Secrets oldSecrets() {
  auto secrets = makeSecrets();
  secrets.aggregatorAuthority = {};
  secrets.serviceAccountKey = {};
  return secrets;
}

// Catches: a secret that is lost or confused with another in the file, and configs of another
// cluster.
TEST(SecretsBundle, MakesTheSameClusterAgain) {
  for (kj::StringPtr version : {"", "v0.8"}) {
    auto secrets = version.size() == 0 ? makeSecrets() : oldSecrets();
    auto text = writeSecrets(secrets);
    auto again = readSecrets(text, "f");
    EXPECT_EQ(text, writeSecrets(again));
    GenerateOptions options{.talosVersion = version, .docs = false};
    auto one = generate(secrets, "test", "https://10.5.0.2:6443", options);
    auto two = generate(again, "test", "https://10.5.0.2:6443", options);
    EXPECT_EQ(one.init, two.init);
    EXPECT_EQ(one.controlplane, two.controlplane);
    EXPECT_EQ(one.join, two.join);
    EXPECT_TRUE(parse(one.controlplane, "f").good());
  }
}

// Catches: a bundle of another version that is used as if it were complete, or with unused content.
TEST(SecretsBundle, FitsTheVersion) {
  auto old = oldSecrets();
  EXPECT_EQ(failureOf([&]() { generate(old, "test", "https://x", {.docs = false}); }),
            "the secrets lack the aggregator CA or the key of the service accounts; use "
            "--talos-version v0.8 for those of a cluster before v0.9");
  auto made = generate(makeSecrets(), "test", "https://x", {.talosVersion = "v0.8", .docs = false});
  auto config = parse(made.controlplane, "f");
  EXPECT_FALSE(config.get().getCluster().hasAggregatorCA());
  EXPECT_FALSE(config.get().getCluster().hasServiceAccount());
}

// Catches: a message without its place, a mistake that hides another, a secret in a message.
TEST(SecretsBundle, SaysWhatIsWrongAndWhere) {
  auto text = writeSecrets(makeSecrets());
  auto problemsOf = [](kj::StringPtr changed) {
    return failureOf([&]() { readSecrets(changed, "s.yaml"); });
  };
  EXPECT_EQ(problemsOf(""), "s.yaml: the document is empty");
  EXPECT_EQ(problemsOf("secrets: [\n"), "s.yaml:2:1: \"]\" or \",\" is missing before this");
  EXPECT_EQ(problemsOf("secrets: {bootstraptoken: x}\ntrustdinfo: {}\ncerts: {os: {crt: QQ==}}\n"),
            "s.yaml:1:1: secrets.aescbcencryptionsecret: required key is missing; set it or "
            "secretboxencryptionsecret\n"
            "s.yaml:1:11: warning: secrets.bootstraptoken: Kubernetes does not accept this "
            "bootstrap token, so no worker can join; use 6 characters, a dot and 16 characters, "
            "all of a-z and 0-9\n"
            "s.yaml:2:13: trustdinfo.token: required key is missing\n"
            "s.yaml:3:8: certs.etcd: required key is missing\n"
            "s.yaml:3:8: certs.k8s: required key is missing\n"
            "s.yaml:3:9: certs.os.key: required key is missing");
  EXPECT_EQ(
      problemsOf(
          with(text, "", "    aescbcencryptionsecret:", "    aescbcencryptionsecret: c2hvcnQ=")),
      "s.yaml:6:5: secrets.aescbcencryptionsecret: not valid base64 of 32, 24 or 16 bytes; use "
      "the output of `head -c 32 /dev/urandom | base64`");
  auto other = makeSecrets();
  auto key = kj::encodeBase64(other.etcdAuthority.key.bytes());
  auto mixed =
      problemsOf(with(text, "    etcd:", "        key:", kj::str("        key: ", key).cStr()));
  EXPECT_NE(mixed.find("s.yaml:18:9: certs.etcd.key: "), mixed.npos) << mixed;
  EXPECT_EQ(mixed.find(key.cStr()), mixed.npos);
  EXPECT_NE(problemsOf(with(text, "    k8sserviceaccount:", "        key:", "        key: QQ=="))
                .find("certs.k8sserviceaccount.key: "),
            std::string::npos);
  // Keys that later versions add are accepted.
  EXPECT_EQ(problemsOf(kj::str("cluster:\n    id: x\n    secret: y\n", text)), "no failure");
}

// Catches: a lost secret of a running cluster, and an incomplete bundle.
TEST(SecretsBundle, IsThatOfAControlPlaneConfig) {
  auto secrets = makeSecrets();
  secrets.secretboxSecret = pki::Pem(kj::str("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="));
  auto made = generate(secrets, "test", "https://10.5.0.2:6443", {.docs = false});
  for (auto* config : {&made.init, &made.controlplane}) {
    EXPECT_EQ(writeSecrets(secrets), writeSecrets(secretsFrom(*config, "c.yaml")));
  }
  auto again = readSecrets(writeSecrets(secretsFrom(made.init, "c.yaml")), "s.yaml");
  EXPECT_EQ(made.controlplane,
            generate(again, "test", "https://10.5.0.2:6443", {.docs = false}).controlplane);
  auto refused = [](kj::StringPtr config) {
    return failureOf([&]() { secretsFrom(config, "c.yaml"); });
  };
  EXPECT_EQ(
      refused(made.join),
      "c.yaml: the config of a worker does not have the secrets of the cluster; use that of a "
      "control-plane node");
  EXPECT_EQ(refused("machine: {"), "c.yaml:1:1: \"}\" or \",\" is missing before this");
  secrets.encryptionSecret = pki::Pem(kj::str());
  secrets.clusterToken = pki::Pem(kj::str());
  secrets.etcdAuthority = {};
  auto less = generate(secrets, "test", "https://10.5.0.2:6443", {.docs = false});
  EXPECT_EQ(refused(less.controlplane),
            "c.yaml: the config does not have all secrets of the cluster; missing: cluster.token, "
            "cluster.etcd.ca");
  auto without = [&](const char* section) {
    std::string text = made.controlplane.cStr();
    auto begin = text.find(section), end = text.find("\n    ", begin + 1);
    while (text[end + 5] == ' ') end = text.find("\n    ", end + 1);
    return kj::str(text.erase(begin, end - begin).c_str());
  };
  EXPECT_EQ(refused(without("\n    aggregatorCA:")),
            "c.yaml: the config does not have all secrets of the cluster; missing: "
            "cluster.aggregatorCA");
  EXPECT_EQ(refused(without("\n    serviceAccount:")),
            "c.yaml: the config does not have all secrets of the cluster; missing: "
            "cluster.serviceAccount.key");
}

// Catches: a warning that is not returned.
TEST(SecretsBundle, GivesWarningsToo) {
  auto secrets = makeSecrets();
  kj::Vector<kj::String> warnings;
  readSecrets(kj::str("cluster:\n    id: x\n", writeSecrets(secrets)), "s.yaml", warnings);
  ASSERT_EQ(1u, warnings.size());
  EXPECT_TRUE(warnings[0].startsWith("s.yaml:1:1: cluster: ")) << warnings[0].cStr();
  readSecrets(writeSecrets(secrets), "s.yaml", warnings);
  EXPECT_EQ(0u, warnings.size());
  auto made = generate(secrets, "test", "https://10.5.0.2:6443", {.docs = false});
  secretsFrom(kj::str("kind: BGPInstanceConfig\n---\n", made.init), "c.yaml", warnings);
  ASSERT_EQ(1u, warnings.size());
  EXPECT_TRUE(warnings[0].startsWith("c.yaml:1:1: BGPInstanceConfig: this system"))
      << warnings[0].cStr();
}

// Catches: confused files, and a message that does not name the file.
TEST(SecretsBundle, TakesOverTheAuthoritiesOfKubeadm) {
  auto from = makeSecrets();
  std::map<std::string, std::string> files = {
      {"ca.crt", from.kubernetesAuthority.certificate.cStr()},
      {"ca.key", kj::StringPtr(from.kubernetesAuthority.key).cStr()},
      {"etcd/ca.crt", from.etcdAuthority.certificate.cStr()},
      {"etcd/ca.key", kj::StringPtr(from.etcdAuthority.key).cStr()},
      {"sa.key", kj::StringPtr(from.serviceAccountKey).cStr()},
      {"front-proxy-ca.crt", from.aggregatorAuthority.certificate.cStr()},
      {"front-proxy-ca.key", kj::StringPtr(from.aggregatorAuthority.key).cStr()}};
  auto read = [&](kj::StringPtr path) { return kj::str(files.at(path.cStr()).c_str()); };
  auto secrets = makeSecrets();
  adoptKubernetesPki(secrets, read);
  adoptBootstrapToken(secrets, "abcdef.0123456789abcdef");
  EXPECT_EQ(secrets.kubernetesAuthority.certificate, from.kubernetesAuthority.certificate);
  EXPECT_EQ(secrets.etcdAuthority.certificate, from.etcdAuthority.certificate);
  EXPECT_EQ(secrets.aggregatorAuthority.certificate, from.aggregatorAuthority.certificate);
  EXPECT_EQ(kj::StringPtr(secrets.serviceAccountKey), kj::StringPtr(from.serviceAccountKey));
  EXPECT_NE(secrets.machineAuthority.certificate, from.machineAuthority.certificate);
  readSecrets(writeSecrets(secrets), "f");

  std::swap(files["ca.key"], files["etcd/ca.key"]);
  EXPECT_EQ(failureOf([&]() { adoptKubernetesPki(secrets, read); }).substr(0, 8), "ca.key: ");
  files["ca.crt"] = "text";
  EXPECT_EQ(failureOf([&]() { adoptKubernetesPki(secrets, read); }).substr(0, 8), "ca.crt: ");
  EXPECT_EQ(
      failureOf([&]() { adoptBootstrapToken(secrets, "kubeadm join"); }),
      "not a valid bootstrap token; use 6 characters, a dot and 16 characters, all of a-z and 0-9");
}

// Catches: a token that kubeadm prints in another form than it accepts, the hash of a CA taken for
// a token, and an arbitrary choice among two tokens.
TEST(SecretsBundle, FindsTheBootstrapTokenInEveryFormOfKubeadm) {
  for (auto text :
       {"abcdef.0123456789abcdef", " abcdef.0123456789abcdef\r\n",
        "kubeadm join 10.0.0.9:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash "
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "--token=abcdef.0123456789abcdef",
        "abcdef.0123456789abcdef   23h   2026-11-25T10:00:00Z   authentication,signing   <none>",
        "bootstrapTokens:\n- token: \"abcdef.0123456789abcdef\"\n  ttl: 24h0m0s\n",
        "abcdef.0123456789abcdef abcdef.0123456789abcdef"}) {
    auto secrets = makeSecrets();
    adoptBootstrapToken(secrets, text);
    EXPECT_EQ(kj::StringPtr(secrets.clusterToken), "abcdef.0123456789abcdef"_kj) << text;
  }
  auto secrets = makeSecrets();
  EXPECT_EQ(failureOf([&]() {
              adoptBootstrapToken(secrets, "abcdef.0123456789abcdef abcdeg.0123456789abcdef");
            }),
            "two bootstrap tokens are given; use one of them");
  for (auto text :
       {"", " \r\n", "--token=abc", "ABCDEF.0123456789abcdef 23h", "\"abc\"", "a\x1b[1m"}) {
    EXPECT_EQ(failureOf([&]() { adoptBootstrapToken(secrets, text); }).substr(0, 27),
              "not a valid bootstrap token")
        << text;
  }
}

// Catches: a token of a running cluster that is refused although the original accepts it; a token
// with which no worker can join, and no word about it.
TEST(SecretsBundle, KeepsABootstrapTokenOfAnyFormWithAWarning) {
  for (auto text : {"ABCDEF.0123456789abcdef", "abcdef:0123456789abcdef",
                    "xabcdef.0123456789abcdef", "abcdef.0123456789abcdeff", " my-token\n"}) {
    auto secrets = makeSecrets();
    kj::Vector<kj::String> warnings;
    adoptBootstrapToken(secrets, text, warnings);
    ASSERT_EQ(warnings.size(), 1u) << text;
    EXPECT_EQ(warnings[0],
              "Kubernetes does not accept this bootstrap token, so no worker can join; use 6 "
              "characters, a dot and 16 characters, all of a-z and 0-9"_kj);
    kj::Vector<kj::String> read;
    auto again = readSecrets(writeSecrets(secrets), "f", read);
    EXPECT_EQ(kj::StringPtr(again.clusterToken), kj::StringPtr(secrets.clusterToken));
    EXPECT_NE(std::string(text).find(kj::StringPtr(again.clusterToken).cStr()), std::string::npos);
    ASSERT_EQ(read.size(), 1u) << text;
  }
  auto secrets = makeSecrets();
  kj::Vector<kj::String> warnings;
  adoptBootstrapToken(secrets, "abcdef.0123456789abcdef", warnings);
  EXPECT_EQ(warnings.size(), 0u);
}

}  // namespace
}  // namespace talos::config
