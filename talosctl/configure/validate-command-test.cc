// validate, gen secrets and gen config with its flags, on files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <kj/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <string>

#include "common/base/file.h"
#include "common/config/config.h"
#include "common/tls/pki.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Validate : public ::testing::Test {
  ConsoleFixture test;
  kj::Own<Command> root = newRoot();
  kj::String folder;
  Validate() {
    addCommands(*root);
    char path[] = "/tmp/talosctl-validate-XXXXXX";
    folder = kj::str(mkdtemp(path));
  }
  ~Validate() noexcept override { removeTree(folder); }

  kj::String in(kj::StringPtr name) { return kj::str(folder, "/", name); }
  kj::String file(kj::StringPtr name, kj::StringPtr text) {
    writeFileAtomically(in(name), text, 0600);
    return in(name);
  }
  int run(std::initializer_list<kj::StringPtr> words) {
    return talosctl::run(test.deps, *root, kj::arrayPtr(words.begin(), words.size()),
                         kj::NEVER_DONE)
        .wait(test.io.waitScope);
  }
  int generate(std::initializer_list<kj::StringPtr> flags) {
    std::vector<kj::StringPtr> words{"gen", "config", "demo", "https://10.0.0.2:6443"};
    words.insert(words.end(), flags.begin(), flags.end());
    return talosctl::run(test.deps, *root, kj::arrayPtr(words.data(), words.size()), kj::NEVER_DONE)
        .wait(test.io.waitScope);
  }
  std::string out() { return test.console.takeOut().cStr(); }
  std::string err() { return test.console.takeErr().cStr(); }
  std::string inFolder(std::string text) {
    for (size_t at; (at = text.find("@/")) != text.npos;) text.replace(at, 1, folder.cStr());
    return text;
  }
};

// Catches: a generated file that is invalid where it is used, or that causes warnings.
TEST_F(Validate, AcceptsWhatIsGenerated) {
  auto o = in("o");
  ASSERT_EQ(generate({"-o", o}), 0) << err();
  out();
  for (kj::StringPtr name : {"init", "controlplane", "join"}) {
    for (kj::StringPtr mode : {"metal", "cloud", "container"}) {
      auto path = kj::str(o, "/", name, ".yaml");
      EXPECT_EQ(run({"validate", "-c", path, "-m", mode, "--strict"}), 0) << err();
      EXPECT_EQ(out(), kj::str(path, " is valid for ", mode, " mode\n").cStr());
    }
  }
}

// Catches: problems without a place, warnings that fail the command, a mode that is ignored.
TEST_F(Validate, ShowsEveryProblem) {
  auto authority = pki::makeAuthority({.organization = "x"});
  auto ca = kj::str("  ca: {crt: ", kj::encodeBase64(authority.certificate.asBytes()), "}\n");
  auto path = file("c.yaml", kj::str("machine:\n  type: worker\n  token: abcdef.0123456789abcdef\n"
                                     "  features: {diskQuotaSupport: true}\n",
                                     ca, "cluster:\n  token: abcdef.0123456789abcdef\n", ca,
                                     "  controlPlane:\n    endpoint: https://10.0.0.2:6443\n"));
  EXPECT_EQ(run({"validate", "-c", path, "-m", "container"}), 0);
  EXPECT_EQ(err(),
            inFolder("WARNING: @/c.yaml:4:14: machine.features.diskQuotaSupport: this key is "
                     "supported from version v1.5 on; it has no effect; the kubelet would use "
                     "quotas for pods in user namespaces only; for others it adds up the sizes of "
                     "files, as without quotas\n"));
  EXPECT_EQ(out(), inFolder("@/c.yaml is valid for container mode\n"));
  EXPECT_EQ(run({"validate", "-c", path, "-m", "container", "--strict"}), 1);
  EXPECT_THAT(err(), StartsWith(inFolder("@/c.yaml:4:14: machine.features.diskQuotaSupport: ")));
  EXPECT_EQ(out(), "");
  EXPECT_EQ(run({"validate", "-c", path, "-m", "metal"}), 1);
  EXPECT_THAT(err(), HasSubstr("machine.install: the disk to install to"));
  EXPECT_EQ(run({"validate", "-c", path, "-m", "metal", "-o", "json"}), 1);
  EXPECT_THAT(out(), AllOf(HasSubstr("\"mode\": \"metal\",\n    \"valid\": false"),
                           HasSubstr("\"severity\": \"error\",\n            \"line\": 1"),
                           HasSubstr("\"path\": \"machine.features.diskQuotaSupport\"")));
  EXPECT_EQ(run({"validate", "-c", path, "-m", "cloud", "-o", "json"}), 0);
  EXPECT_THAT(out(), HasSubstr("\"valid\": true"));
  EXPECT_EQ(run({"validate", "-c", path, "-m", "metal", "-o", "yaml"}), 1);
  EXPECT_THAT(out(), AllOf(StartsWith(inFolder("file: @/c.yaml\nmode: metal\nvalid: false\n"
                                               "problems:\n    - severity: ")),
                           HasSubstr("\n      line: 4\n      column: 14\n"
                                     "      path: machine.features.diskQuotaSupport\n")));
  err();
  EXPECT_EQ(run({"validate", "-c", path, "-m", "moon"}), 1);
  EXPECT_THAT(err(), HasSubstr("metal"));
  EXPECT_EQ(run({"validate", "-c", path}), 1);
  EXPECT_THAT(err(), HasSubstr("required flag --mode"));
}

// Catches: a key or document without effect that has no line, or more than one, or that --strict
// lets pass.
TEST_F(Validate, NamesEachThingWithoutEffectInALine) {
  auto authority = pki::makeAuthority({.organization = "x"});
  auto ca = kj::str("  ca: {crt: ", kj::encodeBase64(authority.certificate.asBytes()), "}\n");
  auto config = kj::str(
      "machine:\n  type: worker\n  token: abcdef.0123456789abcdef\n"
      "  features: {rbac: true}\n",
      ca, "cluster:\n  token: abcdef.0123456789abcdef\n", ca,
      "  controlPlane: {endpoint: \"https://10.0.0.2:6443\"}\n"
      "---\nkind: DiscoveryIdentityConfig\nclusterID: a\n");
  auto path = file("later.yaml", config);
  auto key = inFolder(
      "@/later.yaml:4:14: machine.features.rbac: this key is supported from version v0.11 on; it "
      "has no effect; roles are always checked\n");
  std::string document =
      ": DiscoveryIdentityConfig documents are supported from version v1.14 on; this one has no "
      "effect\n";
  EXPECT_EQ(run({"validate", "-c", path, "-m", "container"}), 0);
  auto warnings = err();
  EXPECT_THAT(warnings, AllOf(HasSubstr("WARNING: " + key), HasSubstr(document)));
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 2) << warnings;
  out();
  EXPECT_EQ(run({"validate", "-c", path, "-m", "container", "--strict"}), 1);
  auto errors = err();
  EXPECT_THAT(errors, AllOf(HasSubstr(key), HasSubstr(document), Not(HasSubstr("WARNING"))));
  EXPECT_EQ(out(), "");
}

// Catches: a document of another program that makes a config invalid although it is allowed; an
// allowed one without a warning that a node refuses it.
TEST_F(Validate, UnknownDocumentsCanBeAllowed) {
  auto o = in("o");
  ASSERT_EQ(generate({"-t", "worker", "-o", o}), 0) << err();
  auto made = readFile(o);
  auto with = [&](kj::StringPtr kind) {
    return file("c.yaml", kj::str("kind: ", kind, "\n---\n", made));
  };
  auto path = with("Backup");
  EXPECT_EQ(run({"validate", "-c", path, "-m", "metal"}), 1);
  EXPECT_THAT(err(), HasSubstr("unknown kind \"Backup\" of a document; remove it\n"));
  EXPECT_EQ(run({"validate", "-c", path, "-m", "metal", "--allow-unknown-documents"}), 0);
  EXPECT_EQ(err(),
            inFolder("WARNING: @/c.yaml:1:1: unknown kind \"Backup\" of a document; a node refuses "
                     "it\n"));
  EXPECT_EQ(out(), inFolder("@/c.yaml is valid for metal mode\n"));
  EXPECT_EQ(run({"validate", "-c", path, "-m", "metal", "--allow-unknown-documents", "--strict"}),
            1);
  EXPECT_THAT(err(), HasSubstr("--strict treats the warnings of --allow-unknown-documents"));
}

// Catches: a stack trace or an empty line instead of a message, for each wrong kind of file.
TEST_F(Validate, SaysWhatIsWrongWithAFile) {
  struct Row {
    kj::String path;
    const char* message;
  };
  auto large = kj::heapString(5u << 20);
  for (size_t i = 0; i < large.size(); ++i) large[i] = i % 50 == 49 ? '\n' : 'x';
  kj::Vector<Row> rows;
  rows.add(Row{in("none"), "@/none: no such file\n"});
  rows.add(Row{kj::str(folder), ": is a directory, not a file\n"});
  rows.add(Row{file("empty", ""), "@/empty: no machine config: the document is empty\n"});
  rows.add(Row{file("binary",
                    "\x7f"
                    "ELF\x02\x01"),
               "@/binary:1:1: byte 0x7f is not text; "});
  rows.add(Row{file("large", large),
               "@/large: the document has 5242880 bytes; at most 4194304 are read\n"});
  rows.add(Row{file("text", "hello\n"), "@/text:1:1: not a machine config: "});
  for (auto& row : rows) {
    EXPECT_EQ(run({"validate", "-c", row.path, "-m", "metal"}), 1);
    EXPECT_THAT(err(), HasSubstr(inFolder(row.message)));
    EXPECT_EQ(out(), "");
  }
}

// Catches: secrets that others may read or that are overwritten without a message, and configs of
// another cluster.
TEST_F(Validate, SecretsMakeTheSameClusterAgain) {
  auto secrets = in("secrets.yaml"), a = in("a"), b = in("b"), c = in("c");
  EXPECT_EQ(run({"gen", "secrets", "-o", secrets}), 0) << err();
  struct stat s = {};
  stat(secrets.cStr(), &s);
  EXPECT_EQ(s.st_mode & 07777, 0600u);
  auto before = readFile(secrets);
  EXPECT_EQ(run({"gen", "secrets", "-o", secrets}), 1);
  EXPECT_EQ(
      err(),
      kj::str("error: file \"", secrets, "\" already exists, use --force to overwrite\n").cStr());
  EXPECT_EQ(readFile(secrets), before);
  out();
  EXPECT_EQ(generate({"-o", a, "--with-secrets", secrets}), 0) << err();
  EXPECT_THAT(out(), Not(HasSubstr("generating")));
  EXPECT_EQ(generate({"-o", b, "--with-secrets", secrets}), 0) << err();
  EXPECT_EQ(generate({"-o", c}), 0) << err();
  for (kj::StringPtr name : {"/init.yaml", "/controlplane.yaml", "/join.yaml"}) {
    EXPECT_EQ(readFile(kj::str(a, name)), readFile(kj::str(b, name)));
    EXPECT_NE(readFile(kj::str(a, name)), readFile(kj::str(c, name)));
  }
  EXPECT_EQ(run({"gen", "secrets", "-o", secrets, "--force", "-t", "abcdef.0123456789abcdef"}), 0);
  EXPECT_THAT(readFile(secrets).cStr(), HasSubstr("bootstraptoken: abcdef.0123456789abcdef\n"));
  EXPECT_EQ(run({"gen", "secrets", "-o", in("d"), "-p", in("nothing")}), 1);
  EXPECT_THAT(err(), HasSubstr("nothing/ca.crt: no such file"));
  EXPECT_EQ(tryReadFile(in("d")), nullptr);
  EXPECT_EQ(generate({"-o", in("e"), "--with-secrets", kj::str(a, "/join.yaml")}), 1);
  EXPECT_THAT(err(), HasSubstr("join.yaml:2:1: version: unknown key"));
}

// Catches: a folder that the user has to make first; a token that the original accepts and that is
// refused, or accepted without a word.
TEST_F(Validate, SecretsGoToANewFolderAndHaveATokenOfAnyForm) {
  auto secrets = in("new/deep/secrets.yaml"), o = in("o"), patched = in("other/patched.yaml");
  EXPECT_EQ(run({"gen", "secrets", "-o", secrets, "-t", "My-Token"}), 0);
  EXPECT_THAT(err(), HasSubstr("WARNING: Kubernetes does not accept this bootstrap token, so no "
                               "worker can join; use 6 characters"));
  EXPECT_THAT(readFile(secrets).cStr(), HasSubstr("bootstraptoken: My-Token\n"));
  EXPECT_EQ(generate({"-o", o, "--with-secrets", secrets}), 0);
  EXPECT_THAT(err(), AllOf(HasSubstr("secrets.bootstraptoken: Kubernetes does not accept"),
                           HasSubstr("cluster.token: Kubernetes does not accept")));
  auto worker = kj::str(o, "/worker.yaml");
  EXPECT_THAT(readFile(worker).cStr(), HasSubstr("    token: My-Token\n"));
  EXPECT_EQ(run({"mc", "patch", worker, "-p", "machine: {network: {hostname: n1}}", "-o", patched}),
            0);
  EXPECT_THAT(readFile(patched).cStr(), HasSubstr("        hostname: n1\n"));
  EXPECT_EQ(run({"gen", "secrets", "-o", in("bad"), "-t", "two words"}), 1);
  EXPECT_THAT(err(), HasSubstr("not a valid bootstrap token"));
  EXPECT_EQ(tryReadFile(in("bad")), nullptr);
}

// Catches: another cluster than the running one whose secrets were given, and a flag that is
// ignored without an error.
TEST_F(Validate, SecretsOfARunningCluster) {
  auto first = in("first"), second = in("second"), secrets = in("secrets.yaml");
  ASSERT_EQ(generate({"-o", first}), 0) << err();
  auto config = kj::str(first, "/controlplane.yaml");
  EXPECT_EQ(run({"gen", "secrets", "-o", secrets, "--from-controlplane-config", config}), 0)
      << err();
  EXPECT_EQ(generate({"-o", second, "--with-secrets", secrets}), 0) << err();
  EXPECT_EQ(readFile(config), readFile(kj::str(second, "/controlplane.yaml")));
  EXPECT_EQ(run({"gen", "secrets", "-o", in("x"), "--from-controlplane-config",
                 kj::str(first, "/join.yaml")}),
            1);
  EXPECT_THAT(err(), HasSubstr("the config of a worker does not have the secrets"));
  EXPECT_EQ(run({"gen", "secrets", "-o", in("x"), "--from-controlplane-config", config,
                 "--from-kubernetes-pki", folder}),
            1);
  EXPECT_THAT(err(), HasSubstr("cannot be used together"));
  EXPECT_EQ(run({"gen", "secrets", "-o", in("x"), "--from-controlplane-config", config,
                 "--talos-version", "v0.8"}),
            1);
  EXPECT_THAT(err(), HasSubstr("--talos-version cannot be used together"));
  EXPECT_EQ(tryReadFile(in("x")), nullptr);
  auto odd = file("odd.yaml", kj::str(readFile(config), "---\nkind: BGPInstanceConfig\n"));
  EXPECT_EQ(run({"gen", "secrets", "-o", in("y"), "--from-controlplane-config", odd}), 0);
  EXPECT_THAT(err(), HasSubstr("WARNING: "));
  auto later = file("later.yaml", kj::str(readFile(secrets), "cluster: {id: x}\n"));
  EXPECT_EQ(generate({"-o", in("z"), "--with-secrets", later}), 0);
  EXPECT_THAT(err(), HasSubstr("WARNING: "));
}

// Catches: a patched file that others may read, an invalid result, and a result that is written
// although a patch failed.
TEST_F(Validate, MachineConfigsArePatchedAsFiles) {
  auto o = in("o"), patched = in("patched.yaml");
  ASSERT_EQ(run({"machineconfig", "gen", "demo", "https://10.0.0.2:6443", "-o", o,
                 "--with-examples=false"}),
            0)
      << err();
  auto config = kj::str(o, "/controlplane.yaml");
  auto patch = kj::str("@", file("p.yaml", "machine:\n  network:\n    hostname: n1\n"));
  auto json = R"([{"op":"add","path":"/machine/time/servers/-","value":"ntp.example.org"}])";
  out();
  EXPECT_EQ(run({"machineconfig", "patch", config, "--patch", patch, "-p", json, "-o", patched}), 0)
      << err();
  EXPECT_EQ(out(), "");
  auto text = readFile(patched);
  EXPECT_THAT(text.cStr(), AllOf(HasSubstr("hostname: n1\n"), HasSubstr("- ntp.example.org\n"),
                                 HasSubstr("# Host name, links, addresses")));
  struct stat s = {};
  stat(patched.cStr(), &s);
  EXPECT_EQ(s.st_mode & 07777, 0600u);
  EXPECT_EQ(run({"mc", "patch", config, "--patch", patch, "-p", json}), 0) << err();
  EXPECT_EQ(out(), std::string(text.cStr()));
  // A patch with a setting that has no effect here causes a warning.
  auto pods = "cluster: {podCheckpointer: {image: kept}}";
  EXPECT_EQ(run({"mc", "patch", config, "-p", pods}), 0);
  EXPECT_THAT(err(), HasSubstr("WARNING: the patched config:"));
  EXPECT_THAT(out(), HasSubstr("podCheckpointer"));
  EXPECT_EQ(generate({"-o", in("p"), "--config-patch", pods}), 0);
  EXPECT_THAT(err(), HasSubstr("WARNING: the patched init.yaml:"));
  auto bad = in("bad.yaml");
  EXPECT_EQ(run({"machineconfig", "patch", config, "-p", "machine: {type: boss}", "-o", bad}), 1);
  EXPECT_THAT(err(), HasSubstr("the patched config:"));
  EXPECT_EQ(
      run({"machineconfig", "patch", config, "-p", R"([{"op":"remove","path":"/a"}])", "-o", bad}),
      1);
  EXPECT_THAT(err(), HasSubstr("/a: no such path"));
  EXPECT_EQ(tryReadFile(bad), nullptr);
  EXPECT_EQ(run({"machineconfig", "patch", config}), 1);
  EXPECT_THAT(err(), HasSubstr("required flag --patch"));
}

// Catches: flags that are parsed and then ignored.
TEST_F(Validate, GenConfigHonoursItsFlags) {
  auto o = in("o"), examples = in("examples");
  EXPECT_EQ(generate({"-o", o, "--with-docs=false", "--with-examples=false"}), 0) << err();
  EXPECT_THAT(readFile(kj::str(o, "/init.yaml")).cStr(), Not(HasSubstr("#")));
  EXPECT_EQ(generate({"-o", examples, "--with-docs=false"}), 0) << err();
  EXPECT_THAT(readFile(kj::str(examples, "/join.yaml")).cStr(), HasSubstr("# sysctls:"));
  EXPECT_THAT(readFile(kj::str(examples, "/join.yaml")).cStr(), Not(HasSubstr("# # ")));
}

// The users' documents have lines that patch a config to replace its images, and an operation
// "replace" needs an existing key. Catches: a generated config without these keys; a config with
// other images than "talosctl images" prints.
TEST_F(Validate, GenConfigNamesTheImagesThatTheDocumentsReplace) {
  auto o = in("o"), none = in("none");
  ASSERT_EQ(generate({"-o", o}), 0) << err();
  ASSERT_EQ(run({"images"}), 0) << err();
  auto images = out();
  auto control = readFile(kj::str(o, "/controlplane.yaml"));
  auto parsed = config::parse(control, "f");
  auto cluster = parsed.get().getCluster();
  for (auto image : {parsed.get().getMachine().getKubelet().getImage(),
                     cluster.getApiServer().getImage(), cluster.getControllerManager().getImage(),
                     cluster.getScheduler().getImage(), cluster.getProxy().getImage()}) {
    EXPECT_NE(image, "");
    EXPECT_THAT(images, HasSubstr(kj::str(image, "\n").cStr()));
  }
  for (auto& [path, value] : std::map<std::string, std::string>{
           {"/machine/kubelet/image", "ghcr.io/talos-systems/kubelet:v1.20.5"},
           {"/cluster/apiServer/image", "k8s.gcr.io/kube-apiserver:v1.20.5"},
           {"/cluster/controllerManager/image", "k8s.gcr.io/kube-controller-manager:v1.20.4"},
           {"/cluster/scheduler/image", "k8s.gcr.io/kube-scheduler:v1.20.4"}}) {
    auto patch = R"([{"op": "replace", "path": ")" + path + R"(", "value": ")" + value + R"("}])";
    EXPECT_EQ(
        run({"machineconfig", "patch", kj::str(o, "/controlplane.yaml"), "-p", patch.c_str()}), 0)
        << err();
    EXPECT_THAT(out(), HasSubstr("image: " + value + "\n"));
  }
  EXPECT_EQ(generate({"-o", none, "--kubernetes-version="}), 0) << err();
  auto without = config::parse(readFile(kj::str(none, "/controlplane.yaml")), "f");
  EXPECT_EQ(without.get().getCluster().getApiServer().getImage(), "");
}

// Catches: an image without a tag, or files in the root directory, when a variable of a script is
// empty; a blank line after the problems.
TEST_F(Validate, GenConfigWithEmptyWords) {
  test.environment.insert(kj::str("TAG"), kj::str());
  auto o = in("o"), bad = in("bad");
  EXPECT_EQ(generate({"-o", o, "--with-docs=false", "--with-examples=false"}), 0) << err();
  EXPECT_THAT(readFile(kj::str(o, "/init.yaml")).cStr(), HasSubstr("installer:v"));
  EXPECT_EQ(generate({"--output-dir="}), 1);
  EXPECT_THAT(err(), HasSubstr("error: --output-dir must not be empty"));
  EXPECT_EQ(generate({"-o", bad, "--dns-domain", "a b"}), 1);
  EXPECT_THAT(err(), EndsWith("for example cluster.local\n"));
  EXPECT_EQ(tryReadFile(kj::str(bad, "/join.yaml")), nullptr);
}

TEST_F(Validate, ADashIsStandardInput) {
  auto path = file("in.yaml", "machine: {type: wroker}\n");
  kj::AutoCloseFd input(open(path.cStr(), O_RDONLY | O_CLOEXEC));
  test.deps.input = input;
  EXPECT_EQ(run({"validate", "-c", "-", "-m", "cloud"}), 1);
  EXPECT_THAT(err(), HasSubstr("standard input:1:17: machine.type: \"wroker\""));
}

// Catches: a patch that changes the wrong files, and files that are written although one is
// invalid.
TEST_F(Validate, GenConfigPatchesWhatItWrites) {
  auto o = in("o");
  auto sysctl = file("p.yaml", "machine:\n  sysctls:\n    kernel.panic: \"7\"\n");
  EXPECT_EQ(generate({"-o", o, "--with-examples=false", "--config-patch", kj::str("@", sysctl),
                      "--config-patch-control-plane",
                      R"([{"op":"add","path":"/machine/env","value":{"A":"1, 2"}}])",
                      "--config-patch-join", "machine: {network: {hostname: w}}"}),
            0)
      << err();
  auto control = std::string(readFile(kj::str(o, "/controlplane.yaml")).cStr());
  auto init = std::string(readFile(kj::str(o, "/init.yaml")).cStr());
  auto join = std::string(readFile(kj::str(o, "/join.yaml")).cStr());
  for (auto& text : {control, init}) {
    EXPECT_THAT(text,
                AllOf(HasSubstr("\n    sysctls:\n        kernel.panic: \"7\"\n"),
                      HasSubstr("\n    env:\n        A: 1, 2\n"), Not(HasSubstr("hostname: w"))));
  }
  EXPECT_THAT(join, AllOf(HasSubstr("kernel.panic"), HasSubstr("        hostname: w\n"),
                          Not(HasSubstr("A: 1, 2"))));
  EXPECT_THAT(join, HasSubstr("    # Host name, links, addresses, routes and resolvers.\n"));
  auto later = in("later");
  EXPECT_EQ(generate({"-o", later, "--config-patch-worker", "machine: {env: {B: b}}",
                      "--config-patch-join", "machine: {env: {C: c}}"}),
            0)
      << err();
  EXPECT_THAT(readFile(kj::str(later, "/join.yaml")).cStr(),
              HasSubstr("\n        C: c\n        B: b\n"));

  auto none = in("none");
  EXPECT_EQ(generate({"-o", none, "--config-patch-join", "machine: {type: boss}"}), 1);
  EXPECT_THAT(err(), HasSubstr("machine.type: \"boss\" is not a valid machine type"));
  EXPECT_EQ(generate({"-o", none, "--config-patch",
                      R"([{"op":"replace","path":"/machine/typ","value":"x"}])"}),
            1);
  EXPECT_THAT(err(), HasSubstr("--config-patch:1:2: /machine/typ: no such path"));
  EXPECT_EQ(generate({"-o", none, "--config-patch", "@/nothing"}), 1);
  EXPECT_THAT(err(), HasSubstr("/nothing: no such file"));
  EXPECT_EQ(tryReadFile(kj::str(none, "/join.yaml")), nullptr);
}

// Catches: a patch with documents that is refused, or whose documents are lost or have no warning;
// an empty file of a template that ends the command.
TEST_F(Validate, GenConfigTakesDocumentsAndEmptyPatches) {
  auto o = in("o");
  auto two =
      file("two.yaml",
           "machine:\n  nodeLabels: {a: b}\n---\napiVersion: v1alpha1\n"
           "kind: DiscoveryServiceConfig\nname: data\nendpoint: https://discovery.lab.test\n");
  EXPECT_EQ(generate({"-o", o, "--with-examples=false", "--config-patch", kj::str("@", two)}), 0);
  EXPECT_THAT(err(),
              HasSubstr("DiscoveryServiceConfig documents are supported from version v1.14 on"));
  for (auto name : {"init", "controlplane", "join"}) {
    auto text = readFile(kj::str(o, "/", name, ".yaml"));
    EXPECT_THAT(text.cStr(),
                AllOf(HasSubstr("\n    nodeLabels:\n        a: b\n"),
                      EndsWith("\n---\napiVersion: v1alpha1\nkind: DiscoveryServiceConfig\n"
                               "name: data\nendpoint: https://discovery.lab.test\n")))
        << name;
  }
  for (auto content : {"", "# off\n"}) {
    auto none = file("none.yaml", content), folder = kj::str(in("empty"), strlen(content));
    EXPECT_EQ(generate({"-o", folder, "--config-patch", kj::str("@", none)}), 0);
    EXPECT_THAT(err(), HasSubstr(kj::str("WARNING: ", none, ": the patch is empty").cStr()));
  }
  auto config = kj::str(o, "/join.yaml");
  EXPECT_EQ(run({"mc", "patch", config, "-p", kj::str("@", in("none.yaml"))}), 0);
  EXPECT_EQ(out(), std::string(readFile(config).cStr()));
  EXPECT_EQ(
      run({"mc", "patch", config, "-p",
           "apiVersion: v1alpha1\nkind: DiscoveryServiceConfig\nname: data\n$patch: delete\n"}),
      0);
  EXPECT_THAT(out(), Not(HasSubstr("DiscoveryServiceConfig")));
  EXPECT_EQ(run({"mc", "patch", config, "-p", "apiVersion: v1alpha1\nkind: NoSuchConfig\n"}), 1);
  EXPECT_THAT(err(), HasSubstr("unknown kind \"NoSuchConfig\""));
}

}  // namespace
}  // namespace talos::talosctl
