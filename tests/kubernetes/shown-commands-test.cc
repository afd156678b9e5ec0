// Commands of newer clients of Talos, typed on three control-plane nodes and two workers
// with Kubernetes, after the sequence by which a provider makes such a cluster from machines
// without a config. $SHOWN_COMMANDS names a file for their output
// (docs/evidence/shown-commands.md).
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <vector>

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

// A number of lines of an answer, each matched as a whole by the expression.
struct Rows {
  const char* expression;
  long count;
};

// A command line, and its output: on stdout, or on stderr when it fails. Without rows stdout is
// empty.
struct Shown {
  const char* line;
  std::vector<Rows> rows;
  int status = 0;
};

// A row of `get` for each of the three control planes has this at its beginning.
#define EACH R"(10\.5\.0\.[234] +)"
// A listening socket of the first one.
#define LISTENS(port) R"(10\.5\.0\.2 +tcp6 +\d+ +\d+ +\[::\]:)" port R"( +\[::\]:\* +LISTEN +)"
#define SIZE R"([1-9][0-9.]* (B|kB|MB|GB))"

// Each with a mistake that only a cluster shows: of a resource that no program writes, of
// namespaces of pods, of an archive without a node. A header alone is no answer: types, numbers,
// addresses and how many rows there are.
const Shown kCommands[] = {
    {"version --short", {{R"(Talos v\d+\.\d+\.\d+\S*)", 1}, {"\tNODE: +10\\.5\\.0\\.[234]", 3}}},
    {"get securitystates",
     {{EACH R"(runtime +SecurityState +securitystate +\d+ +false +\d+)", 3}, {".+", 4}}},
    {"get discoveryconfigs", {{EACH R"(config +DiscoveryConfig +cluster +\d+)", 3}, {".+", 4}}},
    {"get imagecacheconfig",
     {{EACH R"(cri +ImageCacheConfig +image-cache +\d+ +disabled +skipped)", 3}, {".+", 4}}},
    {"get platformmetadatas",
     {{EACH R"(runtime +PlatformMetadata +platformmetadata +\d+ +container)", 3}, {".+", 4}}},
    {"get etcfilestatuses",
     {{EACH R"(files +EtcFileStatus +(hostname|hosts|resolv\.conf) +\d+ +\d+-\d+)", 9},
      {".+", 10}}},
    {"-n 10.5.0.2 get etcdmembers",
     {{R"(10\.5\.0\.2 +etcd +EtcdMember +[0-9a-f]+ +\d+ +shown-master-[123] +)"
       R"(\["https://10\.5\.0\.[234]:2380"\] +\["https://10\.5\.0\.[234]:2379"\] +false)",
       3},
      {".+", 4}}},
    {"get members",
     {{EACH R"(cluster +Member +(shown-master-[123]) +\d+ +\1 +controlplane +Talos \(v\S+\) +)"
            R"(\["10\.5\.0\.[234]"\])",
       9},
      {EACH R"(cluster +Member +(shown-worker-[12]) +\d+ +\1 +worker +Talos \(v\S+\) +)"
            R"(\["10\.5\.0\.[56]"\])",
       6},
      {".+", 16}}},
    {"image default",
     {{R"(registry\.k8s\.io/kube-(apiserver|controller-manager|scheduler|proxy):v1\.\d+\.\d+)", 4},
      {R"(ghcr\.io/siderolabs/kubelet:v1\.\d+\.\d+)", 1},
      {R"(\S+/installer:v\S+)", 1}}},
    {"-n 10.5.0.2 image list",
     {{R"(10\.5\.0\.2 +registry\.k8s\.io/kube-(apiserver|controller-manager|scheduler|proxy):)"
       R"(v1\.\d+\.\d+ +sha256:[0-9a-f]{64} +)" SIZE R"( +\d{4}-\d\d-\d\dT\S+)",
       4}}},
    {"-n 10.5.0.2 image list --namespace system",
     {{R"(10\.5\.0\.2 +ghcr\.io/siderolabs/kubelet:v1\.\d+\.\d+ +sha256:[0-9a-f]{64} +)" SIZE
       R"( +\d{4}-\d\d-\d\dT\S+)",
       1},
      {".+", 2}}},
    {"-n 10.5.0.2 netstat -l -p",
     {{LISTENS("6443") R"(\d+/kube-apiserver)", 1},
      {LISTENS("2379") R"(\d+/etcd)", 1},
      {LISTENS("10250") R"(\d+/kubelet)", 1},
      {LISTENS("50000") R"(\d+/apid)", 1},
      {LISTENS("50001") R"(\d+/trustd)", 1}}},
    {"-n 10.5.0.2 netstat -l --pods",
     {{"NODE .* STATE +POD", 1}, {LISTENS("50000") "-", 1}, {LISTENS("10250") "-", 1}}},
    {"-n 10.5.0.2 cgroups --preset cpuset",
     {{R"(10\.5\.0\.2 +└─kubepods( +\d[0-9,-]*){4})", 1},
      {R"(10\.5\.0\.2 +  └─burstable( +\d[0-9,-]*){4})", 1}}},
    {"-n 10.5.0.2 cgroups --preset memory",
     {{R"(10\.5\.0\.2 +└─kubepods +)" SIZE " +" SIZE R"( .* \d+)", 1},
      {R"(10\.5\.0\.2 +  └─burstable +)" SIZE " +" SIZE R"( .* \d+)", 1}}},
    {"-n 10.5.0.2 logs apid --tail 2",
     {{R"(10\.5\.0\.2: time=\d{4}-\d\d-\d\dT\S+Z level=(debug|info|warning|error) message=.+)", 2},
      {".+", 2}}},
    {"-n 10.5.0.2 logs nosuch", {{R"(ERROR: 10\.5\.0\.2: log "nosuch" was not registered)", 1}}, 1},
    {"-n 10.5.0.6 dmesg",
     {{R"(10\.5\.0\.6: user: +info: \[\S+Z\]: \[talos\] sequence (initialize|boot): \d+ phases)",
       2}}},
    {"-n 10.5.0.6 usage -d 1 /etc/kubernetes", {{R"(10\.5\.0\.6 +[1-9]\d* +\.)", 1}}},
    {"-n 10.5.0.2 restart trustd", {}},
    {"-n 10.5.0.2 service trustd",
     {{"ID +trustd", 1},
      {"STATE +Running", 1},
      {R"(.*\[Running\]: Started /usr/bin/trustd \(PID \d+\) .*)", 2},
      {R"(.*\[Waiting\]: Process \(PID \d+\) killed by signal 15 .*)", 1}}},
    {"config info -o json",
     {{R"( +"nodes": \["10\.5\.0\.2", "10\.5\.0\.3", "10\.5\.0\.4"\],)", 1},
      {R"( +"roles": \["os:admin"\],)", 1},
      {R"( +"certificateSecondsLeft": [1-9]\d{6,})", 1}}},
    {"config new reader.yaml --roles os:reader --crt-ttl 2h", {}},
    {"--talosconfig reader.yaml config info",
     {{R"(Nodes: +10\.5\.0\.2, 10\.5\.0\.3, 10\.5\.0\.4)", 1}, {"Roles: +os:reader", 1}}},
    {"inject serviceaccount -f pod.yaml",
     {{"  name: caller", 1},
      {"      image: busybox:1\\.37", 1},
      {" +- mountPath: /var/run/secrets/talos\\.dev", 1}}},
    {"support -w 2 -O support.zip", {}},
    {"-n 10.5.0.2 crashdump", {{R"(10\.5\.0\.2)", 1}, {"> apid", 1}, {"> kubelet", 1}}},
};
#undef EACH
#undef LISTENS
#undef SIZE

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
  // Sends the config to the machine with the fingerprint on its console, and not to another
  // machine.
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
  // Blanks at the ends of lines are of columns without a value.
  static long linesLike(const std::string& text, const char* expression) {
    std::regex whole(std::string(expression) + " *");
    auto all = harness::lines(text);
    return std::count_if(all.begin(), all.end(),
                         [&](auto& line) { return std::regex_match(line, whole); });
  }
  Result typeAndShow(const std::string& line) {
    auto result = typed(line);
    show(line, result);
    return result;
  }
};

// Catches: a config that goes to every caller with the address of a machine; a provider's sequence
// that does not make a cluster; a command that works on a model and not on a cluster, with a header
// and no rows, a control-plane node among the workers, a missing count or size; a notice on stdout,
// or a result on stderr.
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
    auto& answer = command.status == 0 ? result.out : result.err;
    for (auto& rows : command.rows) {
      EXPECT_EQ(linesLike(answer, rows.expression), rows.count) << rows.expression << "\n"
                                                                << answer << result.err;
    }
    if (command.rows.empty()) EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(harness::slurp(desk + "/support.zip").substr(0, 4), "PK\x03\x04");
  auto reset = typeAndShow(std::string("-n ") + kWorker + " reset --reboot --graceful=false");
  EXPECT_EQ(reset.status, 0) << reset.out << reset.err;
  auto probe = "-n " + cluster->endpoint(kWorker) + " version --insecure";
  EXPECT_TRUE(eventually([&] { return typed(probe).status == 0; }, kClusterUp, 0.5))
      << cluster->console("shown-worker-2");
}

}  // namespace
}  // namespace talos
