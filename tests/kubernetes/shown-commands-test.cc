// Commands that newer clients of the original have, typed on three control planes and two workers
// with Kubernetes, after the sequence by which a provider makes such a cluster from machines
// without a config. $SHOWN_COMMANDS names a file for what they print
// (docs/evidence/shown-commands.md).
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::eventually;
using harness::Result;
using testing::HasSubstr;

constexpr const char *kMaster = "10.5.0.2", *kWorker = "10.5.0.6";
const std::pair<const char*, const char*> kNodes[] = {{"shown-master-1", kMaster},
                                                      {"shown-master-2", "10.5.0.3"},
                                                      {"shown-master-3", "10.5.0.4"},
                                                      {"shown-worker-1", "10.5.0.5"},
                                                      {"shown-worker-2", kWorker}};

// A command line, and a piece of what it prints: on stdout, or on stderr when it fails. Without
// one there is nothing on stdout.
struct Shown {
  const char* line;
  const char* piece;
  int status = 0;
};

// Each with a mistake that only a cluster shows: of a resource that no program writes, of
// namespaces of pods, of an archive without a node.
constexpr Shown kCommands[] = {
    {"version --short", "Talos"},
    {"get securitystates", "securitystate"},
    {"get discoveryconfigs", "cluster"},
    {"get imagecacheconfig", "image-cache"},
    {"get platformmetadatas", "platformmetadata"},
    {"get etcfilestatuses", "resolv.conf"},
    {"-n 10.5.0.2 get etcdmembers", "shown-master-1"},
    {"get members", "shown-worker-2"},
    {"image default", "registry.k8s.io/kube-apiserver"},
    {"-n 10.5.0.2 image list", "kube-apiserver"},
    {"-n 10.5.0.2 image list --namespace system", "/kubelet:"},
    {"image cache-create", "machine.registries.mirrors", 1},
    {"-n 10.5.0.2 netstat -l -p", "kube-apiserver"},
    {"-n 10.5.0.2 netstat -l --pods", "POD"},
    {"-n 10.5.0.2 cgroups --preset cpuset", "CPUS IN EFFECT"},
    {"-n 10.5.0.2 cgroups --preset memory", "kubelet"},
    {"-n 10.5.0.2 logs apid --tail 2", "level="},
    {"-n 10.5.0.2 logs nosuch", "log \"nosuch\" was not registered", 1},
    {"-n 10.5.0.6 dmesg", "machined"},
    {"-n 10.5.0.6 usage -d 1 /etc/kubernetes", "SIZE"},
    {"-n 10.5.0.2 restart trustd", ""},
    {"-n 10.5.0.2 service trustd", "Running"},
    {"config info -o json", "\"roles\""},
    {"config new reader.yaml --roles os:reader --crt-ttl 2h", ""},
    {"--talosconfig reader.yaml config info", "os:reader"},
    {"inject serviceaccount -f pod.yaml", "talos-secrets"},
    {"support -w 2 -O support.zip", ""},
    {"-n 10.5.0.2 crashdump", "10.5.0.2"},
};

class ShownCommands : public KubeHost {
 protected:
  std::unique_ptr<Cluster> cluster;
  std::string desk;  // where they are typed
  std::ofstream page;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(KubeHost::SetUp());
    cluster = std::make_unique<Cluster>(
        "shown", std::vector<std::string>{"--provisioner=container", "--masters=3", "--workers=2",
                                          "--skip-injecting-config", "--skip-kubeconfig",
                                          "--registry-mirror", "*=http://10.5.0.1:5000"});
    desk = cluster->folder() + "/desk";
    ASSERT_EQ(mkdir(desk.c_str(), 0700), 0);
    std::ofstream(desk + "/pod.yaml")
        << "apiVersion: v1\nkind: Pod\nmetadata: {name: caller}\nspec:\n  containers:\n"
           "  - {name: main, image: 'busybox:1.37'}\n";
    if (auto file = getenv("SHOWN_COMMANDS")) page.open(file);
  }
  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }

  Result typed(const std::string& line) {
    std::vector<std::string> words = {"sh", "-c", "cd \"$0\" && exec \"$@\"", desk};
    std::istringstream split(line);
    std::vector<std::string> arguments(std::istream_iterator<std::string>(split), {});
    auto command = cluster->command(arguments);
    words.insert(words.end(), command.begin(), command.end());
    return harness::run(words, kClusterUp, {"HOME=" + desk, "KUBECONFIG="});
  }
  // The first lines are enough to see the form.
  void show(const std::string& line, const Result& result) {
    constexpr size_t kLines = 12;
    auto print = [&](const char* stream, const std::string& text) {
      auto all = harness::lines(text);
      for (size_t i = 0; i < std::min(all.size(), kLines); ++i) {
        page << stream << all[i].substr(0, 160) << "\n";
      }
      if (all.size() > kLines) page << "… " << all.size() - kLines << " more lines\n";
    };
    page << "```\n$ talosctl " << line << "\n";
    print("", result.out);
    print("stderr: ", result.err);
    if (result.status != 0) page << "exit status " << result.status << "\n";
    page << "```\n" << std::flush;
  }
  // By the fingerprint on its console, and not to another machine.
  void giveConfig(const std::string& name, const std::string& address) {
    std::smatch fingerprint;
    std::string console;
    ASSERT_TRUE(eventually(
        [&] {
          console = cluster->console(name);
          return std::regex_search(console, fingerprint,
                                   std::regex("certificate is ([A-Za-z0-9+/]{43}=)"));
        },
        kClusterUp, 0.5))
        << console;
    auto on = "-n " + cluster->endpoint(address) + " ";
    harness::run({"cp", cluster->stateFolder() + "/" + name + ".yaml", desk});
    auto apply = on + "apply-config --insecure -f " + name + ".yaml --cert-fingerprint ";
    if (address == kMaster) {
      auto wrong = typeAndShow(apply + std::string(43, 'A') + "=");
      EXPECT_EQ(wrong.status, 1);
      EXPECT_THAT(wrong.err, HasSubstr("fingerprint"));
      EXPECT_EQ(typeAndShow(on + "version --insecure").status, 0) << "it has got nothing";
    }
    auto right = typeAndShow(apply + fingerprint[1].str());
    ASSERT_EQ(right.status, 0) << right.out << right.err;
  }
  Result typeAndShow(const std::string& line) {
    auto result = typed(line);
    show(line, result);
    return result;
  }
};

// Catches: a config that goes to whoever has the address of a machine; a provider's sequence that
// does not make a cluster; a command that works on a model and not there; a notice on stdout, or a
// result on stderr.
TEST_F(ShownCommands, PrintWhatTheirClientsExpect) {
  for (auto& [name, address] : kNodes) giveConfig(name, address);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(eventually([&] { return cluster->booted(kMaster); }, kClusterUp, 0.5));
  for (std::string line : {"-n 10.5.0.2 bootstrap", "-n 10.5.0.2 kubeconfig given.yaml",
                           "-n 10.5.0.2 health --wait-timeout 6m"}) {
    auto result = typeAndShow(line);
    ASSERT_EQ(result.status, 0) << line << "\n" << result.out << result.err;
  }
  EXPECT_THAT(typeAndShow("-n 10.5.0.2 bootstrap").err, HasSubstr("bootstrapped before"));
  for (auto& command : kCommands) {
    SCOPED_TRACE(command.line);
    auto result = typeAndShow(command.line);
    EXPECT_EQ(result.status, command.status) << result.out << result.err;
    EXPECT_THAT(command.status == 0 ? result.out : result.err, HasSubstr(command.piece))
        << result.err;
    if (command.piece == std::string()) EXPECT_EQ(result.out, "");
  }
  auto reset = typeAndShow(std::string("-n ") + kWorker + " reset --reboot --graceful=false");
  EXPECT_EQ(reset.status, 0) << reset.out << reset.err;
  auto probe = "-n " + cluster->endpoint(kWorker) + " version --insecure";
  EXPECT_TRUE(eventually([&] { return typed(probe).status == 0; }, kClusterUp, 0.5))
      << cluster->console("shown-worker-2");
}

}  // namespace
}  // namespace talos
