// The machine config of running machines: delivered to machines that have no config, edited,
// patched and applied in each mode, and its state when two clients do so at once or one leaves half
// way. The machines are containers: no test in this file needs its own kernel.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "common/tls/pki.h"
#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::slurp;
namespace fs = std::filesystem;

constexpr const char* kNodes[] = {"10.5.0.2", "10.5.0.3"};
constexpr const char* kBoth = "10.5.0.2,10.5.0.3";

std::string machineOf(const std::string& node) {
  return std::string("config-master-") + (node == kNodes[0] ? "1" : "2");
}

std::string tail(const std::string& text) {
  return text.size() < 4000 ? text : text.substr(text.size() - 4000);
}

// An authority that only this test knows, for the trust store.
const std::string& privateAuthority() {
  static const std::string certificate =
      pki::makeAuthority({.organization = "example"}).certificate.cStr();
  return certificate;
}

std::string indented(const std::string& text, const std::string& by) {
  std::string out;
  for (auto& line : harness::lines(text)) out += by + line + "\n";
  return out;
}

// Settings with an effect, as Talos' documents write them.
std::string effects() {
  return std::string("    files:\n") + "        - content: |\n" +
         indented(privateAuthority(), "            ") +
         "          permissions: 0644\n"
         "          path: /etc/ssl/certs/ca-certificates\n"
         "          op: append\n"
         "        - content: |\n"
         "            [metrics]\n"
         "              address = \"0.0.0.0:11234\"\n"
         "          path: /var/cri/conf.d/metrics.toml\n"
         "          op: create\n"
         "        - path: /etc/cri/conf.d/20-customization.part\n"
         "          op: create\n"
         "          content: plugins.\"io.containerd.grpc.v1.cri\".enable_unprivileged_ports = "
         "true\n"
         "        - {op: overwrite, path: /etc/nfsmount.conf, content: nfsvers=4.2}\n"
         "    env:\n"
         "        http_proxy: http://proxy.example:3128\n"
         "        GRPC_GO_LOG_SEVERITY_LEVEL: info\n"
         "    sysctls:\n"
         "        net.ipv4.ip_default_ttl: \"99\"\n"
         "    registries:\n"
         "        mirrors:\n"
         "            docker.io:\n"
         "                endpoints:\n"
         "                    - http://10.5.0.1:5000/\n";
}

class Config : public ::testing::Test {
 public:
  static Cluster* cluster;
  static std::string folder;

  static void SetUpTestSuite() {
    char name[] = "/tmp/talos-apply-XXXXXX";
    KJ_REQUIRE(mkdtemp(name) != nullptr);
    folder = name;
    cluster = new Cluster("config", {"--provisioner", "container", "--masters", "2", "--workers",
                                     "0", "--wait=false", "--skip-injecting-config"});
  }
  static void TearDownTestSuite() {
    delete cluster;
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  static std::string console(const std::string& node) { return cluster->console(machineOf(node)); }

  // Returns the file of the machine's own config, with changes for these tests: its address too,
  // which in a container the host sets unless the config has it.
  static std::string fileFor(const std::string& node) {
    auto text = slurp(cluster->stateFolder() + "/" + machineOf(node) + ".yaml");
    auto at = text.find("\nmachine:\n");
    KJ_REQUIRE(at != std::string::npos);
    text.insert(at + 10, effects());
    auto theirs = text.find("ignore: true\n");
    KJ_REQUIRE(theirs != std::string::npos);
    text.replace(theirs, 12, "cidr: " + node + "/24");
    auto path = folder + "/" + machineOf(node) + ".yaml";
    std::ofstream(path) << text;
    return path;
  }

  // Waits until the boot has finished as well, because a config is refused before.
  static bool up(const std::string& node, double seconds) {
    return eventually(
        [&] {
          auto stage = cluster->talosctl({"-n", node, "--timeout", "5s", "status"}, 20);
          if (!std::regex_search(stage.out, std::regex(R"(\srunning\s)"))) return false;
          auto table = cluster->talosctl({"-n", node, "--timeout", "5s", "services"}, 20);
          return table.status == 0 && table.err.empty() && contains(table.out, "apid") &&
                 harness::allServicesUp(table.out);
        },
        seconds, 0.5);
  }
  static std::string bootId(const std::string& node) {
    return cluster->ok({"-n", node, "read", "/proc/sys/kernel/random/boot_id"});
  }
  static std::string ttl(const std::string& node) {
    auto text = cluster->talosctl({"-n", node, "read", "/proc/sys/net/ipv4/ip_default_ttl"}).out;
    return text.substr(0, text.find('\n'));
  }
  static std::string running(const std::string& node) {
    return cluster->ok({"-n", node, "get", "mc", "v1alpha1", "-o", "yaml"});
  }
  static std::string onDisk(const std::string& node) {
    return cluster->ok({"-n", node, "read", "/system/state/config.yaml"});
  }
};
Cluster* Config::cluster = nullptr;
std::string Config::folder;

std::string fingerprintIn(const std::string& console) {
  std::smatch match;
  return std::regex_search(console, match, std::regex("[^A-Za-z0-9+/]([A-Za-z0-9+/]{43}=)"))
             ? match[1].str()
             : "";
}

// --- without a config --------------------------------------------------------------------------

TEST_F(Config, A1_TheConsoleSaysHowToReachTheMachine) {
  for (auto node : kNodes) {
    ASSERT_TRUE(eventually([&] { return !fingerprintIn(console(node)).empty(); }, 180))
        << tail(console(node));
    auto text = console(node);
    EXPECT_TRUE(contains(text, node)) << tail(text);
    EXPECT_TRUE(contains(text, "talosctl apply-config --insecure")) << tail(text);
  }
  EXPECT_NE(fingerprintIn(console(kNodes[0])), fingerprintIn(console(kNodes[1])));
}

// Catches: a machine that serves more than it must to people whom it does not know.
TEST_F(Config, A2_OnlyWhatIsNeededIsServed) {
  auto node = cluster->endpoint(kNodes[0]);
  auto interfaces = cluster->talosctl({"-n", node, "interfaces", "--insecure"});
  EXPECT_EQ(interfaces.status, 0) << interfaces.err;
  EXPECT_TRUE(contains(interfaces.out, "10.5.0.2/24")) << interfaces.out;
  // The certificates of a cluster do not help: the machine is in no cluster.
  for (auto& arguments : std::vector<std::vector<std::string>>{
           {"services"}, {"get", "mc"}, {"read", "/etc/os-release"}, {"reboot", "--wait=false"}}) {
    std::vector<std::string> call = {"-n", kNodes[0], "--timeout", "5s"};
    call.insert(call.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(cluster->talosctl(call, 30).status, 1) << arguments[0];
  }
}

TEST_F(Config, A3_AWrongFingerprintIsRefused) {
  auto node = cluster->endpoint(kNodes[0]);
  auto wrong = fingerprintIn(console(kNodes[1]));
  auto refused = cluster->talosctl({"apply-config", "--insecure", "-n", node, "-f",
                                    fileFor(kNodes[0]), "--cert-fingerprint", wrong});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_TRUE(contains(refused.err, wrong)) << refused.err;
  EXPECT_TRUE(contains(refused.err, fingerprintIn(console(kNodes[0])))) << refused.err;
  EXPECT_EQ(cluster->talosctl({"-n", node, "version", "--insecure"}).status, 0)
      << "the machine left maintenance mode";
}

// Catches: a machine that leaves maintenance mode with a document that it cannot use.
TEST_F(Config, A4_AWrongDocumentIsRefusedWithItsPlace) {
  auto text = slurp(fileFor(kNodes[0]));
  auto at = text.find("op: append");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 10, "op: apend ");
  auto path = folder + "/wrong.yaml";
  std::ofstream(path) << text;
  auto refused =
      cluster->talosctl({"apply-config", "--insecure", "-n", cluster->endpoint(kNodes[0]), "-f",
                         path, "--cert-fingerprint", fingerprintIn(console(kNodes[0]))});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(std::regex_search(
      refused.err, std::regex(R"(wrong\.yaml:\d+:\d+: machine\.files\[0\]\.op: "apend")")))
      << refused.err;
  EXPECT_TRUE(contains(refused.err, "append")) << refused.err;
}

TEST_F(Config, A5_TheRightFingerprintAndNone) {
  auto first = cluster->talosctl({"apply-config", "--insecure", "-n", cluster->endpoint(kNodes[0]),
                                  "-f", fileFor(kNodes[0]), "--cert-fingerprint",
                                  fingerprintIn(console(kNodes[0]))});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_FALSE(contains(first.err, "fingerprint")) << first.err;
  auto second = cluster->talosctl(
      {"apply-config", "--insecure", "-n", cluster->endpoint(kNodes[1]), "-f", fileFor(kNodes[1])});
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_TRUE(contains(second.err, fingerprintIn(console(kNodes[1])))) << second.err;
  for (auto node : kNodes) {
    ASSERT_TRUE(up(node, 240)) << node << tail(console(node));
    // From now on a client without a certificate is refused.
    EXPECT_EQ(
        cluster->talosctl({"-n", cluster->endpoint(node), "version", "--insecure"}, 30).status, 1);
  }
}

// --- what the config drives --------------------------------------------------------------------

TEST_F(Config, B1_WhatTheConfigDrivesIsThere) {
  for (auto node : kNodes) {
    auto read = [&](const std::string& path) { return cluster->ok({"-n", node, "read", path}); };
    EXPECT_EQ(ttl(node), "99");
    auto bundle = read("/etc/ssl/certs/ca-certificates");
    EXPECT_TRUE(contains(bundle, privateAuthority())) << "not in the trust store";
    EXPECT_GT(bundle.size(), 100000u) << "and nothing else is";
    EXPECT_TRUE(contains(read("/var/cri/conf.d/metrics.toml"), "0.0.0.0:11234"));
    EXPECT_TRUE(contains(read("/etc/cri/containerd.toml"), "/var/cri/conf.d/*.toml"));
    EXPECT_TRUE(contains(read("/etc/cri/conf.d/20-customization.part"), "enable_unprivileged"));
    auto containerd = read("/etc/cri/conf.d/cri.toml");
    EXPECT_TRUE(contains(containerd, "\nenable_unprivileged_ports = true\n")) << containerd;
    EXPECT_TRUE(contains(containerd, "config_path = \"/system/etc/cri/certs.d\"")) << containerd;
    EXPECT_TRUE(contains(read("/etc/nfsmount.conf"), "nfsvers=4.2"));
    auto networkd = std::to_string(cluster->servicePids(node)["networkd"]);
    auto apid = std::to_string(cluster->servicePids(node)["apid"]);
    EXPECT_TRUE(
        contains(read("/proc/" + networkd + "/environ"), "http_proxy=http://proxy.example:3128"));
    EXPECT_TRUE(contains(read("/proc/" + apid + "/environ"), "GRPC_GO_LOG_SEVERITY_LEVEL=info"));
    EXPECT_FALSE(contains(read("/proc/" + apid + "/environ"), "proxy.example"));
    auto mirror = read("/system/etc/cri/certs.d/docker.io/hosts.toml");
    EXPECT_TRUE(contains(mirror, "http://10.5.0.1:5000")) << mirror;
    EXPECT_TRUE(contains(cluster->ok({"-n", node, "get", "timestatus"}), "true"));
    auto refused = cluster->talosctl({"-n", node, "patch", "mc", "--mode=reboot", "-p",
                                      "machine: {files: [{path: /etc/absent, op: overwrite}]}"});
    EXPECT_TRUE(contains(refused.err, "/etc/absent: no such file in the system")) << refused.err;
  }
}

// --- changes -----------------------------------------------------------------------------------

TEST_F(Config, C1_ALiveChangeOfBothAtOnce) {
  auto before = bootId(kNodes[0]) + bootId(kNodes[1]);
  auto patched = cluster->talosctl(
      {"-n", kBoth, "patch", "mc", "--immediate", "-p",
       R"([{"op":"replace","path":"/machine/sysctls/net.ipv4.ip_default_ttl","value":"77"}])"});
  EXPECT_EQ(patched.status, 0) << patched.err;
  for (auto node : kNodes) {
    EXPECT_TRUE(contains(patched.err, std::string("patched mc at the node ") + node))
        << patched.err;
    EXPECT_TRUE(eventually([&] { return ttl(node) == "77"; }, 20)) << ttl(node);
    EXPECT_TRUE(contains(running(node), "hostname: " + machineOf(node)))
        << "a node got another one's config";
    EXPECT_TRUE(contains(onDisk(node), "ip_default_ttl: \"77\""));
  }
  EXPECT_EQ(bootId(kNodes[0]) + bootId(kNodes[1]), before);
  auto again = cluster->talosctl(
      {"-n", kBoth, "patch", "mc", "--immediate", "-p",
       R"([{"op":"replace","path":"/machine/sysctls/net.ipv4.ip_default_ttl","value":"77"}])"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_FALSE(contains(again.err, "patched mc at")) << again.err;
}

// Catches: a change that is half made, or made although it was refused.
TEST_F(Config, C2_WhatNeedsARebootIsRefusedWithoutOne) {
  auto before = running(kNodes[0]);
  auto patch = R"([{"op":"add","path":"/machine/env/NEW","value":"1"},
                   {"op":"replace","path":"/machine/sysctls/net.ipv4.ip_default_ttl","value":"1"}])";
  auto refused =
      cluster->talosctl({"-n", kNodes[0], "patch", "mc", "--mode=no-reboot", "-p", patch});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_TRUE(contains(refused.err, "machine.env.NEW")) << refused.err;
  EXPECT_EQ(running(kNodes[0]), before);
  EXPECT_EQ(ttl(kNodes[0]), "77");

  auto dry = cluster->talosctl({"-n", kNodes[0], "patch", "mc", "--dry-run", "-p", patch});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_TRUE(contains(dry.out + dry.err, "machine.env.NEW")) << dry.out << dry.err;
  EXPECT_TRUE(std::regex_search(dry.out, std::regex(R"(\n\+\s+NEW: )"))) << dry.out;
  EXPECT_FALSE(contains(dry.out, "BEGIN")) << "a diff with keys in it";
  EXPECT_EQ(running(kNodes[0]), before);
}

TEST_F(Config, C3_StagedIsForTheNextBoot) {
  auto before = running(kNodes[0]) + running(kNodes[1]);
  auto staged = cluster->talosctl({"-n", kBoth, "patch", "mc", "--mode=staged", "-p",
                                   R"([{"op":"add","path":"/machine/env/STAGED","value":"yes"}])"});
  EXPECT_EQ(staged.status, 0) << staged.err;
  EXPECT_EQ(running(kNodes[0]) + running(kNodes[1]), before);
  for (auto node : kNodes) EXPECT_TRUE(contains(onDisk(node), "STAGED: "));
  EXPECT_EQ(cluster->talosctl({"-n", kBoth, "reboot"}, 300).status, 0);
  for (auto node : kNodes) {
    ASSERT_TRUE(up(node, 240)) << tail(console(node));
    EXPECT_TRUE(contains(running(node), "STAGED: "));
  }
}

TEST_F(Config, C4_EditBothWithAnEditorThatFirstErrs) {
  auto editor = folder + "/editor";
  // The first time an invalid command, then, after the error, the right one.
  std::ofstream(editor)
      << "#!/bin/sh\n"
         "if grep -q 'ip_default_ttl: \"seventy\\|cluster: nonsense' \"$1\"; then\n"
         "  cp \"$1\" " +
             folder +
             "/second\n"
             "  sed -i 's/^cluster: nonsense$//' \"$1\"\n"
             "  sed -i '/^  *net.ipv4.ip_default_ttl:/s/\"[0-9]*\"/\"88\"/' \"$1\"\n"
             "else\n"
             "  printf '\\ncluster: nonsense\\n' >>\"$1\"\n"
             "fi\n";
  fs::permissions(editor, fs::perms::owner_all);
  auto edited = harness::run(cluster->command({"-n", kBoth, "edit", "mc", "--immediate"}), 120,
                             {"TALOS_EDITOR=" + editor});
  EXPECT_EQ(edited.status, 0) << edited.out << edited.err;
  auto second = slurp(folder + "/second");
  EXPECT_TRUE(std::regex_search(second, std::regex(R"(# .*cluster)"))) << second.substr(0, 600);
  for (auto node : kNodes) {
    EXPECT_TRUE(eventually([&] { return ttl(node) == "88"; }, 20)) << ttl(node);
  }
  std::ofstream(editor) << "#!/bin/sh\nexit 0\n";
  auto nothing = harness::run(cluster->command({"-n", kBoth, "edit", "mc", "--immediate"}), 60,
                              {"TALOS_EDITOR=" + editor});
  EXPECT_EQ(nothing.status, 0) << nothing.err;
}

// Catches: an automatic choice that reboots for nothing, or that does not where it has to.
TEST_F(Config, C5_AutomaticallyWithOrWithoutAReboot) {
  auto before = bootId(kNodes[0]) + bootId(kNodes[1]);
  auto live = cluster->talosctl(
      {"-n", kBoth, "patch", "mc", "--mode=auto", "-p",
       R"([{"op":"replace","path":"/machine/sysctls/net.ipv4.ip_default_ttl","value":"89"}])"});
  EXPECT_EQ(live.status, 0) << live.err;
  for (auto node : kNodes) EXPECT_TRUE(eventually([&] { return ttl(node) == "89"; }, 20));
  EXPECT_EQ(bootId(kNodes[0]) + bootId(kNodes[1]), before);
  auto needs = cluster->talosctl({"-n", kBoth, "patch", "mc", "--mode=auto", "--dry-run", "-p",
                                  R"([{"op":"add","path":"/machine/env/AUTO","value":"1"}])"});
  EXPECT_EQ(needs.status, 0) << needs.err;
  EXPECT_TRUE(contains(needs.out, "reboot")) << needs.out;
}

TEST_F(Config, C6_TheDefaultModeRebootsIntoIt) {
  auto before = bootId(kNodes[0]);
  auto other = bootId(kNodes[1]);
  auto patched = cluster->talosctl({"-n", kBoth, "patch", "mc", "-p",
                                    R"([{"op":"add","path":"/machine/env/AFTER","value":"boot"}])"},
                                   60);
  EXPECT_EQ(patched.status, 0) << patched.err;
  for (auto node : kNodes) {
    EXPECT_TRUE(eventually(
        [&] {
          auto id = cluster->talosctl(
              {"-n", node, "--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20);
          return id.status == 0 && id.out != before && id.out != other;
        },
        300, 0.5))
        << tail(console(node));
    ASSERT_TRUE(up(node, 240)) << tail(console(node));
    EXPECT_TRUE(contains(running(node), "AFTER: boot"));
    EXPECT_EQ(ttl(node), "89") << "what was changed live did not survive";
    auto networkd = std::to_string(cluster->servicePids(node)["networkd"]);
    EXPECT_TRUE(contains(cluster->ok({"-n", node, "read", "/proc/" + networkd + "/environ"}),
                         "AFTER=boot"));
    auto bundle = cluster->ok({"-n", node, "read", "/etc/ssl/certs/ca-certificates"});
    auto at = bundle.find(privateAuthority());
    EXPECT_NE(at, std::string::npos);
    EXPECT_EQ(bundle.find(privateAuthority(), at + 1), std::string::npos) << "appended twice";
  }
}

// --- trials ------------------------------------------------------------------------------------

// With this route, answers to the gateway's address and to the other node's reach no machine.
constexpr const char* kWrongRoute =
    R"([{"op":"add","path":"/machine/network/interfaces/0/routes",
         "value":[{"network":"10.5.0.1/32","gateway":"10.5.0.77"},
                  {"network":"10.5.0.2/32","gateway":"10.5.0.77"}]}])";

// Long enough for all that is looked at meanwhile, also beside other tests.
constexpr const char* kTrial = "40s";

// Catches: a plan that differs from the later change, or that is carried out.
TEST_F(Config, C7_ADryRunShowsWhatWouldBeDoneToTheNetwork) {
  auto dry = cluster->talosctl(
      {"-n", kNodes[1], "patch", "mc", "--dry-run", "--mode=auto", "-p", kWrongRoute});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_TRUE(contains(dry.out, "\nNETWORK\n")) << dry.out << dry.err;
  EXPECT_TRUE(contains(dry.out, "add route 10.5.0.1/32 via 10.5.0.77")) << dry.out;
  EXPECT_FALSE(contains(cluster->ok({"-n", kNodes[1], "routes"}), "10.5.0.77"));
}

// Catches: a machine that a wrong route makes unreachable forever, or until it is rebooted.
TEST_F(Config, C8_ATriedWrongRouteIsRevertedByItself) {
  auto document = [&] {  // its version counts the trial
    auto text = running(kNodes[1]);
    return text.substr(text.find("\nspec:"));
  };
  auto base = document(), disk = onDisk(kNodes[1]), boot = bootId(kNodes[1]);
  auto before = console(kNodes[1]).size();
  // The console is no part of the way that the trial takes away, and a slow answer no sign of it.
  auto said = [&](const char* text, double seconds) {
    return eventually([&] { return contains(console(kNodes[1]).substr(before), text); }, seconds);
  };
  auto reachable = [&] {
    return cluster->talosctl({"-n", kNodes[1], "--timeout", "2s", "version"}, 30).status == 0;
  };
  // The answer to this call may get lost.
  harness::Background trying(cluster->command(
      {"-n", kNodes[1], "patch", "mc", "--mode=try", "--timeout", kTrial, "-p", kWrongRoute}));
  bool begun = said("a config is on trial: reverting in", 40);
  if (!begun) trying.finish(1);
  ASSERT_TRUE(begun) << trying.out() << trying.err() << tail(console(kNodes[1]));
  EXPECT_TRUE(eventually([&] { return !reachable(); }, 10)) << tail(console(kNodes[1]));
  EXPECT_EQ(cluster->talosctl({"-n", kNodes[0], "version"}).status, 0) << "the other one is lost";
  ASSERT_TRUE(said("the trial of the config ended; reverted to the previous config", 120))
      << tail(console(kNodes[1]));
  ASSERT_TRUE(eventually(reachable, 30)) << tail(console(kNodes[1]));
  EXPECT_EQ(bootId(kNodes[1]), boot) << "it rebooted";
  EXPECT_EQ(document(), base);
  EXPECT_EQ(onDisk(kNodes[1]), disk);
  EXPECT_FALSE(contains(cluster->ok({"-n", kNodes[1], "routes"}), "10.5.0.77"));
}

// Catches: a trial that is not shown, that a crash of machined or another change makes permanent,
// or that is reverted after it was confirmed.
TEST_F(Config, C9_ATrialIsShownSurvivesMachinedAndEndsByAnApply) {
  auto disk = onDisk(kNodes[0]);
  auto patch = [&](const std::string& mode, const std::string& operations) {
    return cluster->talosctl({"-n", kNodes[0], "patch", "mc", "--mode=" + mode, "--timeout", kTrial,
                              "-p", "[" + operations + "]"});
  };
  auto set = [](const std::string& value) {
    return R"({"op":"replace","path":"/machine/sysctls/net.ipv4.ip_default_ttl","value":")" +
           value + R"("})";
  };
  auto change = [&](const std::string& mode, const std::string& operations) {
    auto done = patch(mode, operations);
    EXPECT_EQ(done.status, 0) << done.err;
    return done.out + done.err;
  };
  auto output = change("try", set("71"));
  EXPECT_TRUE(contains(output, std::string("reverting in ") + kTrial)) << output;
  EXPECT_TRUE(eventually([&] { return ttl(kNodes[0]) == "71"; }, 20)) << ttl(kNodes[0]);
  EXPECT_TRUE(contains(cluster->ok({"-n", kNodes[0], "status"}), "a config is on trial"));
  auto status = cluster->ok({"-n", kNodes[0], "get", "machinestatus", "-o", "yaml"});
  EXPECT_TRUE(std::regex_search(status, std::regex("revertsAt: \"?20\\d\\d-"))) << status;
  auto before = cluster->servicePids(kNodes[0])["machined"];
  cluster->talosctl({"-n", kNodes[0], "service", "machined", "kill", "--signal", "KILL"});
  // The answer comes before the signal.
  ASSERT_TRUE(eventually(
      [&] {
        auto now = cluster->servicePids(kNodes[0]);
        return now.count("machined") && now["machined"] != before;
      },
      30));
  EXPECT_EQ(onDisk(kNodes[0]), disk);
  ASSERT_TRUE(eventually([&] { return ttl(kNodes[0]) != "71"; }, 100));
  EXPECT_EQ(onDisk(kNodes[0]), disk);

  change("try", set("72"));
  auto refused = patch("no-reboot", set("73"));
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "a config is on trial")) << refused.err;
  EXPECT_EQ(onDisk(kNodes[0]), disk);
  change("no-reboot", "");
  EXPECT_TRUE(contains(onDisk(kNodes[0]), "ip_default_ttl: \"72\""));
  harness::Background events(cluster->command({"-n", kNodes[0], "events", "--tail", "-1"}));
  EXPECT_TRUE(events.waitFor(
      [](const std::string& out, const std::string&) {
        return contains(out, "ConfigEvent") && contains(out, "the trial ended");
      },
      30))
      << events.out();
  EXPECT_FALSE(contains(cluster->ok({"-n", kNodes[0], "status"}), "on trial"));
}

// --- accidents ---------------------------------------------------------------------------------

std::string variant(const std::string& base, const std::string& ttl) {
  return std::regex_replace(base, std::regex("net.ipv4.ip_default_ttl: \"[0-9]+\""),
                            "net.ipv4.ip_default_ttl: \"" + ttl + "\"");
}

// Catches: two applies that mix, whose order differs on disk only, or whose caller gets a false
// answer.
TEST_F(Config, D1_TwoAppliesAtOnce) {
  auto base = onDisk(kNodes[0]);
  for (int round = 0; round < 8; ++round) {
    std::vector<std::string> files, ttls;
    for (int i = 0; i < 2; ++i) {
      ttls.push_back(std::to_string(100 + 2 * round + i));
      files.push_back(folder + "/race-" + std::to_string(i) + ".yaml");
      std::ofstream(files[i], std::ios::trunc) << variant(base, ttls[i]);
    }
    auto apply = [&](int i) {
      return cluster->command(
          {"-n", kNodes[0], "apply-config", "--mode=no-reboot", "-f", files[i]});
    };
    harness::Background one(apply(0)), two(apply(1));
    int first = one.finish(60), second = two.finish(60);
    ASSERT_TRUE(first == 0 || second == 0) << one.err() << two.err();
    for (auto* loser : {first != 0 ? &one : nullptr, second != 0 ? &two : nullptr}) {
      if (loser != nullptr) {
        EXPECT_TRUE(contains(loser->err(), "another")) << loser->err();
      }
    }
    auto disk = onDisk(kNodes[0]);
    bool isFirst = disk == variant(base, ttls[0]), isSecond = disk == variant(base, ttls[1]);
    ASSERT_TRUE(isFirst || isSecond) << "neither document, whole, is on disk";
    if (first != 0) EXPECT_TRUE(isSecond) << "the refused one is on disk";
    if (second != 0) EXPECT_TRUE(isFirst) << "the refused one is on disk";
    auto expected = isFirst ? ttls[0] : ttls[1];
    EXPECT_TRUE(contains(running(kNodes[0]), "ip_default_ttl: \"" + expected + "\""));
    EXPECT_TRUE(eventually([&] { return ttl(kNodes[0]) == expected; }, 20)) << ttl(kNodes[0]);
  }
}

// Catches: work that hangs on its caller's connection.
TEST_F(Config, D2_ACallerThatGoesAwayHalfWay) {
  auto base = onDisk(kNodes[0]);
  for (int round = 0; round < 10; ++round) {
    auto before = onDisk(kNodes[0]);
    auto wanted = variant(base, std::to_string(140 + round));
    auto file = folder + "/cut.yaml";
    std::ofstream(file, std::ios::trunc) << wanted;
    {
      harness::Background apply(
          cluster->command({"-n", kNodes[0], "apply-config", "--mode=no-reboot", "-f", file}));
      usleep(20000 * round);  // from before the connection to after the answer
    }  // killed
    EXPECT_TRUE(eventually(
        [&] {
          auto disk = onDisk(kNodes[0]);
          auto spec = running(kNodes[0]);
          std::smatch match;
          return (disk == before || disk == wanted) &&
                 std::regex_search(disk, match, std::regex("ip_default_ttl: \"[0-9]+\"")) &&
                 contains(spec, match[0].str());
        },
        20))
        << "round " << round << ": what runs and what is on disk differ, or are neither document";
  }
}

// Catches: an apply that is answered with success and lost, because a boot overwrites it.
TEST_F(Config, D3_AppliesDuringABoot) {
  auto base = onDisk(kNodes[1]);
  auto before = bootId(kNodes[1]);
  EXPECT_EQ(cluster->talosctl({"-n", kNodes[1], "reboot", "--wait=false"}).status, 0);
  int number = 0, refused = 0;
  std::string last;
  EXPECT_TRUE(eventually(
      [&] {
        auto wanted = variant(base, std::to_string(160 + number++ % 80));
        auto file = folder + "/boot.yaml";
        std::ofstream(file, std::ios::trunc) << wanted;
        auto result = cluster->talosctl(
            {"-n", kNodes[1], "--timeout", "5s", "apply-config", "--mode=no-reboot", "-f", file},
            20);
        if (result.status == 0) {
          last = wanted;
        } else {
          ++refused;
          EXPECT_FALSE(result.err.empty());
        }
        auto id = cluster->talosctl(
            {"-n", kNodes[1], "--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20);
        return result.status == 0 && id.status == 0 && id.out != before;
      },
      300, 0.05));
  ASSERT_TRUE(up(kNodes[1], 240)) << tail(console(kNodes[1]));
  EXPECT_EQ(onDisk(kNodes[1]), last) << refused << " were refused";
}

}  // namespace
}  // namespace talos
