#include "common/config/config-redact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/config/config-generate.h"
#include "common/text/diff.h"

namespace talos::config {
namespace {

std::string redacted(const char* text) {
  return redact(kj::StringPtr(text)).cStr();
}

std::vector<std::string> linesOf(kj::StringPtr text) {
  std::vector<std::string> lines(1);
  for (char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  return lines;
}

// Catches: a secret of a generated config that is shown, and a line that is lost or changed.
TEST(ConfigRedact, HidesEverySecretOfAGeneratedConfig) {
  auto secrets = makeSecrets();
  auto text = machineConfig(secrets, MachineType::CONTROLPLANE, "test", "https://10.5.0.2:6443");
  auto shown = redact(text);
  auto before = linesOf(text), after = linesOf(shown);
  ASSERT_EQ(before.size(), after.size());
  size_t hidden = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    ++hidden;
    auto colon = before[i].find(": ");
    EXPECT_EQ(before[i].substr(0, colon) + ": ***", after[i]);
  }
  EXPECT_EQ(8u, hidden)
      << shown.cStr();  // two tokens, four keys, the account's and the encryption's
  for (auto* secret : {&secrets.machineToken, &secrets.clusterToken, &secrets.encryptionSecret})
    EXPECT_EQ(std::string::npos, std::string(shown.cStr()).find(kj::StringPtr(*secret).cStr()));
}

// Catches: a secret that is shown because of its notation or of a spelling that is read; a value
// that is hidden although it is not secret.
TEST(ConfigRedact, HidesSecretsHoweverTheyAreWritten) {
  struct Row {
    const char *text, *expected;
  };
  for (auto& row : std::vector<Row>{
           {"machine:\n  token: abc.def # why\n  type: init\n",
            "machine:\n  token: *** # why\n  type: init\n"},
           {"kind: KubeAPIServerConfig\nimage: a\nenv: {A: b}\nextraArgs: {v: 4, token-x: c}\n",
            "kind: KubeAPIServerConfig\nimage: a\nenv: {A: ***}\nextraArgs: {v: 4, token-x: "
            "***}\n"},
           {"machine: {token: 'abc', ca: {crt: QQ==, key: QQ==}}\n",
            "machine: {token: ***, ca: {crt: QQ==, key: ***}}\n"},
           {"machine:\n  token: |\n    abc\n    def\n  type: init\n",
            "machine:\n  token: |\n    ***\n    ***\n  type: init\n"},
           {"machine:\n  token: \"abc\n    def\"\n  type: init\n",
            "machine:\n  token: ***\n    ***\n  type: init\n"},
           {"machine:\n  token: abc\n    def\n\n  # next\n  type: init\n",
            "machine:\n  token: ***\n    ***\n\n  # next\n  type: init\n"},
           {"x: &s hush\nmachine:\n  token: *s\n", "x: ***\nmachine:\n  token: *s\n"},
           {"machine:\n  network:\n    interfaces:\n      - interface: wg0\n        wireguard:\n"
            "          privateKey: abc\n          peers:\n            - publicKey: def\n",
            "machine:\n  network:\n    interfaces:\n      - interface: wg0\n        wireguard:\n"
            "          privateKey: ***\n          peers:\n            - publicKey: def\n"},
           {"machine:\n  systemDisksEncryption:\n    state:\n      keys:\n        - keySlot: 1\n"
            "          static: {passphrase: open sesame}\n",
            "machine:\n  systemDisksEncryption:\n    state:\n      keys:\n        - keySlot: 1\n"
            "          static: {passphrase: ***}\n"},
           {"machine:\n  state:\n    keys:\n      - static:\n          passphrase: open\n",
            "machine:\n  state:\n    keys:\n      - static:\n          passphrase: ***\n"},
           {"machine:\n  registries:\n    config:\n      x.org:\n        auth:\n          "
            "username: u\n"
            "          password: p\n          auth: dTpw\n          identityToken: t\n",
            "machine:\n  registries:\n    config:\n      x.org:\n        auth:\n          "
            "username: u\n"
            "          password: ***\n          auth: ***\n          identityToken: ***\n"},
           {"machine:\n  env:\n    http_proxy: http://u:p@x.org:1/ # proxy\n    API_TOKEN: t\n    "
            "A: b\n",
            "machine:\n  env:\n    http_proxy: *** # proxy\n    API_TOKEN: ***\n    A: ***\n"},
           {"machine:\n  files:\n    - content: |\n        a: b\n\n        c\n      path: /var/x\n"
            "      op: create\n    - {content: a, op: append}\n",
            "machine:\n  files:\n    - content: |\n        ***\n\n        ***\n      path: /var/x\n"
            "      op: create\n    - {content: ***, op: append}\n"},
           {"cluster:\n  extraManifests: ['https://u:p@h/m?token=a']\n  network: {cni: {urls: "
            "['https://h/c#d']}}\nmachine:\n  install: {extraKernelArgs: "
            "['talos.config=https://h/?a']"
            "}\n  registries: {mirrors: {x: {endpoints: ['http://u:p@h']}}}\n",
            "cluster:\n  extraManifests: ['https://u:***@h/m?***']\n  network: {cni: {urls: "
            "['https://h/c#***']}}\nmachine:\n  install: {extraKernelArgs: "
            "['talos.config=https://h/?***']"
            "}\n  registries: {mirrors: {x: {endpoints: ['http://u:***@h']}}}\n"},
           {"machine:\n  kubelet:\n    extraArgs: {v: \"4\", bootstrap-token: a}\n    extraConfig: "
            "{staticPodURLHeader: {Authorization: [b]}}\n  sysctls: {net.a: \"1\"}\n",
            "machine:\n  kubelet:\n    extraArgs: {v: \"4\", bootstrap-token: ***}\n    "
            "extraConfig: "
            "{staticPodURLHeader: {Authorization: [***]}}\n  sysctls: {net.a: \"1\"}\n"},
           {"cluster:\n  apiServer:\n    env: {TOKEN: a, P: 'http://u:p@h'}\n    auditPolicy: "
            "{rules: "
            "[{resources: [{resources: [secrets]}]}]}\n    authorizationConfig: [{name: a, "
            "webhook: "
            "{connectionInfo: {token: b, kubeConfigFile: /c}}}]\n",
            "cluster:\n  apiServer:\n    env: {TOKEN: ***, P: 'http://u:***@h'}\n    auditPolicy: "
            "{rules: [{resources: [{resources: [secrets]}]}]}\n    authorizationConfig: [{name: a, "
            "webhook: {connectionInfo: {token: ***, kubeConfigFile: /c}}}]\n"},
           {"machine: {type: init}\n---\nkind: ExtensionServiceConfig\nenvironment: [A=b]\n"
            "configFiles: [{content: c, mountPath: /d}]\n",
            "machine: {type: init}\n---\nkind: ExtensionServiceConfig\nenvironment: [***]\n"
            "configFiles: [{content: ***, mountPath: /d}]\n"},
           {"cluster:\n  secretboxEncryptionSecret: abc\n  secret: def\n  extraManifestHeaders:\n"
            "    Authorization: Bearer x\n",
            "cluster:\n  secretboxEncryptionSecret: ***\n  secret: ***\n  extraManifestHeaders:\n"
            "    Authorization: ***\n"},
           {"machine:\n  #   token: abc\n  # - key: def\n  # the token: is\n  type: init\n",
            "machine:\n  #   token: ***\n  # - key: ***\n  # the token: is\n  type: init\n"},
           {"machine:\n  # env:\n  #   A: b\n  # files:\n  #   - content: |\n  #       A=b\n  #\n"
            "  #       c: d\n  #     path: /x\n  # b\n  type: init\n",
            "machine:\n  # env:\n  #   ***\n  # files:\n  #   - content: |\n  #       ***\n  #\n"
            "  #       ***\n  #     path: /x\n  # b\n  type: init\n"},
           {"machine:\n  token:\n    - a\n    - b: c\n",
            "machine:\n  token:\n    - ***\n    - b: ***\n"},
           {"machine:\n  type: init\n---\nkind: x\npassword: y\n",
            "machine:\n  type: init\n---\nkind: x\npassword: ***\n"},
           {"machine: {type: init}\n---\nkind: WireguardConfig\npeers:\n  - publicKey: a\n"
            "    presharedKey: b\n",
            "machine: {type: init}\n---\nkind: WireguardConfig\npeers:\n  - publicKey: a\n"
            "    presharedKey: ***\n"},
           {"machine:\n  network:\n    interfaces:\n      - vip: {ip: 10.0.0.9, hcloud: "
            "{apiToken: a}}\n---\nkind: HCloudVIPConfig\nname: 10.0.0.8\napiToken: b\n",
            "machine:\n  network:\n    interfaces:\n      - vip: {ip: 10.0.0.9, hcloud: "
            "{apiToken: ***}}\n---\nkind: HCloudVIPConfig\nname: 10.0.0.8\napiToken: ***\n"},
           {"machine: {type: init}\n---\nkind: SideroLinkConfig\n"
            "apiUrl: https://h/join?jointoken=a # b\nother: 'x https://h?y#z https://h/'\n",
            "machine: {type: init}\n---\nkind: SideroLinkConfig\n"
            "apiUrl: https://h/join?*** # b\nother: 'x https://h?*** https://h/'\n"},
           {"kind: x\na: https://h/?b=u@v@w/x\nc: \"https://h/\\x3fd\"\n",
            "kind: x\na: https://h/?***\nc: ***\n"},
           {"kind: x\na: https://h?b=c@d\n", "kind: x\na: https://******\n"},
           {"a: http://u:p@ss:w@h/x http://u@h:80/y?q=a\n",
            "a: http://u:***@h/x http://***@h:80/y?***\n"},
           {"a: \"http:\\/\\/u:p@h\"\nb: \"http\\x3a//u:p@h\"\n", "a: ***\nb: ***\n"},
           {"# http://u:p@h/?q\r\n# token: x\r\nmachine:\r\n  token: |\r\n    a\r\n    b\r\n",
            "# http://u:***@h/?***\r\n# token: ***\r\nmachine:\r\n  token: |\r\n    ***\r\n    "
            "***\r\n"},
           {"\xef\xbb\xbfmachine: {token: abc}\n", "machine: {token: ***}\n"},
           {"machine: [\n", "*** (not valid YAML, not shown)\n"},
           {"", ""},
       }) {
    EXPECT_EQ(row.expected, redacted(row.text)) << row.text;
  }
}

// Catches: a mark that moves every place, so that the end of each secret is shown.
TEST(ConfigRedact, ShowsNothingBehindTwoByteOrderMarks) {
  auto shown = redacted("\xef\xbb\xbf\xef\xbb\xbfmachine:\n  token: abcdefghi\n");
  EXPECT_EQ(std::string::npos, shown.find("ghi")) << shown;
}

// Catches: memory that grows with the number of secrets times the length of the way to them.
TEST(ConfigRedact, ManySecretsDeepDown) {
  std::string text, end;
  for (int i = 0; i < 50; ++i) {
    text += "{" + std::string(1000, 'k') + ": ";
    end += "}";
  }
  text = "token: &t {a: 1}\nsecret: " + text + "[*t";
  for (int i = 0; i < 60'000; ++i) text += ",*t";
  text += "]" + end + "\n";
  auto both = redact(kj::StringPtr(text.c_str()), kj::StringPtr(text.c_str()));
  EXPECT_TRUE(both.from.startsWith("token: &t {a: ***}\n"));
}

// Catches: a secret's change that a diff does not show, or shows in clear.
TEST(ConfigRedact, ShowsThatASecretChanged) {
  auto both =
      redact("machine:\n  token: a\n  ca: {crt: QQ==, key: Qg==}\n"_kj,
             "machine:\n  token: b\n  ca: {crt: QQ==, key: Qg==}\ncluster:\n  token: c\n"_kj);
  EXPECT_STREQ(
      "--- a\n+++ b\n@@ -1,3 +1,5 @@\n machine:\n-  token: *** (old)\n+  token: *** (new)\n"
      "   ca: {crt: QQ==, key: ***}\n+cluster:\n+  token: ***\n",
      unifiedDiff(both.from, both.to, "a", "b").cStr());
  auto shifted =
      redact("x: 1\n---\nmachine: {token: a}\n"_kj, "x: 2\n---\nmachine: {token: a}\n"_kj);
  EXPECT_STREQ("x: 2\n---\nmachine: {token: ***}\n", shifted.to.cStr());
}

// Catches: a diff that is empty because all that changed is in the query of an URL.
TEST(ConfigRedact, ShowsThatAHiddenPartOfAnUrlChanged) {
  auto both =
      redact("cluster:\n  extraManifests: ['https://h/a?ref=v1', 'https://h/b?ref=v1']\n"_kj,
             "cluster:\n  extraManifests: ['https://h/a?ref=v2', 'https://i/b?ref=v1']\n"_kj);
  EXPECT_STREQ("cluster:\n  extraManifests: ['https://h/a?*** (old)', 'https://h/b?***']\n",
               both.from.cStr());
  EXPECT_STREQ("cluster:\n  extraManifests: ['https://h/a?*** (new)', 'https://i/b?***']\n",
               both.to.cStr());
}

// Catches: a diff of all lines between a config in YAML and the same in JSON; one in which a secret
// that changed is not seen, or is seen in clear.
TEST(ConfigRedact, NotationsAreComparedByMeaning) {
  auto both = redact(
      "# mine\nversion: v1alpha1\nmachine:\n  type: worker\n  token: a\n"
      "cluster:\n  controlPlane:\n    endpoint: https://a:6443\n"_kj,
      R"({"version": "v1alpha1", "machine": {"token": "b", "type": "worker"},)"
      R"( "cluster": {"controlPlane": {"endpoint": "https://a:6443"}}})"_kj);
  EXPECT_THAT(unifiedDiff(both.from, both.to, "a", "b").cStr(),
              testing::HasSubstr("\n     type: worker\n-    token: *** (old)\n"
                                 "+    token: *** (new)\n cluster:\n"));
  // A text that is not a config is shown unchanged.
  EXPECT_STREQ("{x: 1}", redact("machine:\n"_kj, "{x: 1}"_kj).to.cStr());
}

}  // namespace
}  // namespace talos::config
