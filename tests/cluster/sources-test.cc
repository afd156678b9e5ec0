// The sources of a machine config, with failures on the way: each machine boots in the end, or
// waits in a state that its console and its API show.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/tls/pki.h"
#include "tests/harness/cluster.h"
#include "tests/harness/web.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::Manner;
using harness::slurp;
using harness::Web;
namespace fs = std::filesystem;

constexpr const char* kGateway = "10.5.0.1";

std::vector<std::string> machines(const char* count, std::vector<std::string> more,
                                  const char* memory = "384") {
  std::vector<std::string> flags = {"--masters", count, "--workers", "0", "--memory", memory};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

struct Scratch {
  std::string path;
  Scratch() {
    char name[] = "/tmp/talos-sources-XXXXXX";
    KJ_REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string write(const std::string& name, const std::string& text) const {
    auto file = path + "/" + name;
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
};

bool runs(const Cluster& cluster, const std::string& node, double seconds) {
  return eventually(
      [&] { return cluster.talosctl({"-n", node, "--timeout", "5s", "version"}, 20).status == 0; },
      seconds, 0.5);
}

bool consoleSays(const Cluster& cluster, const std::string& machine, const std::string& text,
                 double seconds) {
  return eventually([&] { return contains(cluster.console(machine), text); }, seconds, 0.2);
}

std::string tail(const std::string& text) {
  return text.size() < 4000 ? text : text.substr(text.size() - 4000);
}

// Catches: a fetch that gives up, that accepts half a document as a whole one, or that hangs on a
// server which trickles; a machine that accepts a foreign page as a config, dies of it, waits
// without a message, or does not show its state while it waits.
TEST(Sources, AServerThatIsLateSlowGoneHalfWayOrSendsSomethingElse) {
  Cluster cluster("late", machines("3", {"--wait=false", "--extra-boot-kernel-args",
                                         "talos.config=http://10.5.0.1:9000/config.yaml"}));
  auto good = [&](const char* machine) {
    return slurp(cluster.stateFolder() + "/" + machine + ".yaml");
  };
  // All three find no server at first.
  for (auto machine : {"late-master-1", "late-master-2", "late-master-3"}) {
    ASSERT_TRUE(
        consoleSays(cluster, machine, "retrying error: http://10.5.0.1:9000/config.yaml", 180))
        << tail(cluster.console(machine));
  }
  auto broken = good("late-master-3");
  auto at = broken.find("type: controlplane");
  ASSERT_NE(at, std::string::npos);
  broken.replace(at, 18, "type: controlplain");
  Web web(cluster.supervisor(), kGateway, 9000);
  web.answer("10.5.0.2", Manner::kGood, "<html><body>Sign in</body></html>\n");
  web.answer("10.5.0.3", Manner::kSlow, good("late-master-2"));
  web.answer("10.5.0.4", Manner::kHalf, broken);

  ASSERT_TRUE(consoleSays(cluster, "late-master-1", "the server sent a web page", 180))
      << tail(cluster.console("late-master-1"));
  web.answer("10.5.0.2", Manner::kGood, good("late-master-1"));

  EXPECT_TRUE(eventually([&] { return web.asked("10.5.0.4") >= 2; }, 120));
  EXPECT_FALSE(contains(cluster.console("late-master-3"), "controlplain")) << "of half a document";
  web.answer("10.5.0.4", Manner::kGood, broken);

  EXPECT_TRUE(eventually([&] { return web.asked("10.5.0.3") >= 2; }, 120))
      << "the machine still reads the first, endless answer";
  web.answer("10.5.0.3", Manner::kGood, good("late-master-2"));

  ASSERT_TRUE(consoleSays(cluster, "late-master-3", "did you mean \"controlplane\"?", 180))
      << tail(cluster.console("late-master-3"));
  // The API reports it as well, to anybody: there is no certificate to require yet.
  auto ask = [&](const char* what) {
    return cluster.talosctl({"-n", cluster.endpoint("10.5.0.4"), what, "--insecure"}, 20);
  };
  EXPECT_TRUE(eventually(
      [&] {
        auto answer = ask("status");
        return answer.status == 0 && contains(answer.out, "maintenance") &&
               contains(answer.out, "controlplain");
      },
      240, 1))
      << ask("status").out << ask("status").err;
  EXPECT_TRUE(contains(ask("disks").out, "/dev/vda")) << ask("disks").err;
  EXPECT_TRUE(contains(ask("interfaces").out, "10.5.0.4/24")) << ask("interfaces").err;
  // The search continues: once the server is mended, they boot.
  web.answer("10.5.0.4", Manner::kGood, good("late-master-3"));
  EXPECT_TRUE(runs(cluster, "10.5.0.2", 180)) << tail(cluster.console("late-master-1"));
  EXPECT_TRUE(runs(cluster, "10.5.0.3", 180)) << tail(cluster.console("late-master-2"));
  EXPECT_TRUE(runs(cluster, "10.5.0.4", 180)) << tail(cluster.console("late-master-3"));
}

std::string base64(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes(), false).cStr();
}

// Catches: https that verifies nothing, or that does not know the private authority.
TEST(Sources, HttpsWithAPrivateAuthority) {
  Scratch scratch;
  auto authority =
      pki::makeAuthority({.organization = "example", .keyType = pki::KeyType::kEcdsaP256});
  auto stranger =
      pki::makeAuthority({.organization = "example", .keyType = pki::KeyType::kEcdsaP256});
  Cluster cluster("private",
                  machines("1", {"--wait=false", "--extra-boot-kernel-args",
                                 "talos.config=https://10.5.0.1:8443/config.yaml talos.config.ca=" +
                                     base64(authority.certificate)}));
  scratch.write("www/config.yaml", slurp(cluster.stateFolder() + "/private-master-1.yaml"));
  auto serve = [&](const pki::CertificateAndKey& issuer) {
    pki::LeafOptions options;
    options.addresses = kj::arr(kj::str(kGateway));
    auto leaf = pki::issue(issuer.certificate, issuer.key, kj::mv(options));
    return std::vector<std::string>{
        "nsenter",
        "--net=/proc/" + std::to_string(cluster.supervisor()) + "/ns/net",
        "--wd=" + scratch.path + "/www",
        "openssl",
        "s_server",
        "-accept",
        std::string(kGateway) + ":8443",
        "-cert",
        scratch.write("server.crt", leaf.certificate.cStr()),
        "-key",
        scratch.write("server.key", kj::StringPtr(leaf.key).cStr()),
        "-WWW",
        "-quiet"};
  };
  {
    harness::Background impostor(serve(stranger));
    // The reason itself: before the server listens, and in other trouble, the word would be there
    // too.
    EXPECT_TRUE(consoleSays(cluster, "private-master-1",
                            "retrying error: https://10.5.0.1:8443/config.yaml: TLS handshake",
                            180))
        << tail(cluster.console("private-master-1"));
    EXPECT_NE(cluster.talosctl({"-n", "10.5.0.2", "--timeout", "3s", "version"}).status, 0)
        << "the config of an impostor was taken";
  }
  harness::Background server(serve(authority));
  EXPECT_TRUE(runs(cluster, "10.5.0.2", 180)) << tail(cluster.console("private-master-1"));
}

// The machine of a cluster with this name, whose config is made before the machine is.
std::string configFor(const std::string& name, const Scratch& scratch) {
  Cluster made(name, machines("1", {"--wait=false", "--skip-injecting-config"}));
  auto text = slurp(made.stateFolder() + "/" + name + "-master-1.yaml");
  std::ofstream(scratch.path + "/talosconfig") << slurp(made.talosconfig());
  return text;
}

bool becomesControlPlane(const Scratch& scratch) {
  return eventually(
      [&] {
        auto type =
            harness::run({harness::talosctlPath(), "--talosconfig", scratch.path + "/talosconfig",
                          "-n", "10.5.0.2", "--timeout", "5s", "get", "machinetype"},
                         20);
        return type.status == 0 && contains(type.out, "controlplane");
      },
      180, 0.5);
}

// A volume whose config comes from another cluster of the same shape, so its certificates too.
void bootsFromVolume(const std::string& name, const std::string& kernelArguments,
                     const std::function<std::string(const Scratch&, const std::string&)>& volume) {
  Scratch scratch;
  auto config = configFor(name, scratch);
  auto image = volume(scratch, config);
  std::vector<std::string> more = {"--wait=false", "--skip-injecting-config", "--iso-path", image};
  if (!kernelArguments.empty()) {
    more.push_back("--extra-boot-kernel-args");
    more.push_back(kernelArguments);
  }
  Cluster cluster(name, machines("1", more));
  EXPECT_TRUE(becomesControlPlane(scratch)) << tail(cluster.console(name + "-master-1"));
}

TEST(Sources, AVolumeNamedMetalIso) {
  bootsFromVolume("iso", "talos.config=metal-iso",
                  [](const Scratch& scratch, const std::string& config) {
                    scratch.write("tree/config.yaml", config);
                    auto image = scratch.path + "/config.iso";
                    auto made = harness::run({"xorriso", "-as", "mkisofs", "-V", "metal-iso", "-J",
                                              "-r", "-o", image, scratch.path + "/tree"});
                    EXPECT_EQ(made.status, 0) << made.err;
                    return image;
                  });
}

// An image with one more file: the file appended to the squashfs, after the initramfs, wins. The
// kernel unpacks both images into half of the memory.
TEST(Sources, AFileOfTheImage) {
  Scratch scratch;
  auto config = configFor("file", scratch);
  scratch.write("tree/first.yaml", config);
  auto image = fs::path(harness::talosctlPath()).parent_path().parent_path() / "image";
  fs::copy(image / "rootfs.sqsh", scratch.path + "/rootfs.sqsh");
  auto append = harness::run({"mksquashfs", scratch.path + "/tree", scratch.path + "/rootfs.sqsh",
                              "-quiet", "-no-progress", "-all-root"});
  ASSERT_EQ(append.status, 0) << append.err;
  auto pack = harness::run({"sh", "-c",
                            "cd " + scratch.path + " && { cat " + (image / "initramfs").string() +
                                "; echo rootfs.sqsh | cpio -o -H newc --quiet; } >initramfs"});
  ASSERT_EQ(pack.status, 0) << pack.err;
  Cluster cluster("file", machines("1",
                                   {"--wait=false", "--skip-injecting-config", "--initrd-path",
                                    scratch.path + "/initramfs", "--extra-boot-kernel-args",
                                    "talos.config=file:///first.yaml"},
                                   "1536"));
  EXPECT_TRUE(becomesControlPlane(scratch)) << tail(cluster.console("file-master-1"));
}

TEST(Sources, ANoCloudVolume) {
  bootsFromVolume("nocloud", "", [](const Scratch& scratch, const std::string& config) {
    scratch.write("tree/user-data", config);
    scratch.write("tree/meta-data", "instance-id: one\nlocal-hostname: nocloud-master-1\n");
    auto image = scratch.path + "/seed.iso";
    auto made = harness::run({"xorriso", "-as", "mkisofs", "-V", "cidata", "-J", "-r", "-o", image,
                              scratch.path + "/tree"});
    EXPECT_EQ(made.status, 0) << made.err;
    return image;
  });
}

// Catches: a configured machine that a bad sector turns into one without a config, which accepts a
// config from every client that can reach it.
TEST(Sources, AStateThatIsLostIsNoInvitation) {
  Cluster cluster("lost", machines("1", {}));
  auto disk = cluster.stateFolder() + "/lost-master-1.state";
  {
    // The header of the GPT, which a running machine does not read again.
    std::fstream file(disk, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(512);
    file << std::string(512, 'x');
    ASSERT_TRUE(file.flush());
  }
  auto before = cluster.console("lost-master-1").size();
  ASSERT_EQ(cluster.talosctl({"-n", Cluster::kFirst, "reboot", "--wait=false"}).status, 0);
  auto said = [&] { return cluster.console("lost-master-1").substr(before); };
  ASSERT_TRUE(eventually(
      [&] {
        return contains(said(),
                        "/dev/vdb, which has a partition table that the kernel does not accept");
      },
      240, 1))
      << tail(said());
  auto endpoint = cluster.endpoint(Cluster::kFirst);
  auto status = [&] { return cluster.talosctl({"-n", endpoint, "status", "--insecure"}, 20); };
  EXPECT_TRUE(eventually(
      [&] {
        auto answer = status();
        return answer.status == 0 && contains(answer.out, "failed") &&
               contains(answer.out, "partition table that the kernel does not accept");
      },
      120, 1))
      << status().out << status().err;
  auto applied = cluster.talosctl({"-n", endpoint, "apply-config", "--insecure", "--file",
                                   cluster.stateFolder() + "/lost-master-1.yaml"},
                                  60);
  EXPECT_NE(applied.status, 0);
  EXPECT_TRUE(contains(applied.err, "the boot of this node failed")) << applied.out << applied.err;
  EXPECT_FALSE(contains(said(), "waiting for its config")) << tail(said());
}

// Catches: an attacker, or a fault, whose traces are gone after a reboot or a power cut.
TEST(Sources, TheHistoryOfABootOutlivesIt) {
  Cluster cluster("history", {"--provisioner", "container", "--masters", "1", "--workers", "0"});
  const std::vector<std::string> node = {"-n", Cluster::kFirst};
  auto ask = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), node.begin(), node.end());
    return cluster.talosctl(arguments, 120);
  };
  ASSERT_EQ(ask({"reboot"}).status, 0);
  ASSERT_TRUE(runs(cluster, Cluster::kFirst, 240)) << tail(cluster.console("history-master-1"));
  auto boots = ask({"get", "bootrecords"});
  EXPECT_TRUE(contains(boots.out, "asked for through the API by ")) << boots.out << boots.err;
  auto audit = ask({"logs", "--previous", "audit"});
  EXPECT_TRUE(contains(audit.out, "call=Machine.reboot")) << audit.out << audit.err;
  auto machined = ask({"logs", "-p", "machined"});
  EXPECT_TRUE(contains(machined.out, "sequence reboot")) << tail(machined.out) << machined.err;
  auto events = ask({"events", "--previous"});
  EXPECT_TRUE(contains(events.out, "SequenceEvent")) << events.out << events.err;
}

}  // namespace
}  // namespace talos
