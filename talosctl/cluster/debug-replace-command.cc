// talosctl debug replace: another program in place of a daemon's, on nodes of a local cluster that
// are containers. This host's root writes it into the node, whose API has no such call; machined
// takes it at the next start of the service.
#include <elf.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/local-node.h"
#include "talosctl/cluster/replaced-folder.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kServices[] = {"apid"_kj, "trustd"_kj, "networkd"_kj, "etcd-supervisor"_kj,
                                       "vipd"_kj, "kubed"_kj,  "logd"_kj};
constexpr auto kComesUp = 30 * kj::SECONDS, kLook = 100 * kj::MILLISECONDS,
               kAnswer = 5 * kj::SECONDS, kStays = 400 * kj::MILLISECONDS;
constexpr size_t kMostBytes = 64u << 20;

#ifdef __aarch64__
constexpr auto kMachine = EM_AARCH64;
#else
constexpr auto kMachine = EM_X86_64;
#endif

void checkService(kj::StringPtr service) {
  for (auto& one : kServices) {
    if (one == service) return;
  }
  if (service == "machined") {
    fail(ErrorKind::kInvalidArgument,
         "machined is the image's own: make another image, and upgrade to it");
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", service, "\" cannot be replaced; use one of ",
               kj::strArray(kj::arrayPtr(kServices, kj::size(kServices)), ", ")));
}

// A node has no libraries for a program of somebody else's.
void checkProgram(kj::StringPtr path, kj::ArrayPtr<const char> bytes) {
  auto refuse = [&](kj::StringPtr why) {
    fail(ErrorKind::kInvalidArgument, kj::str(path, " is not a program that a node can run: ", why,
                                              "; use one of this build, as build/out/networkd"));
  };
  if (bytes.size() > kMostBytes) refuse("it is larger than 64 MiB");
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header || bytes.slice(0, SELFMAG) != kj::arrayPtr(ELFMAG, SELFMAG)) {
    refuse("it is not an ELF file");
  }
  memcpy(&header, bytes.begin(), sizeof header);
  bool same = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kMachine;
  if (!same) refuse("it is for another architecture");
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) refuse("it is not executable");
  for (size_t i = 0; i < header.e_phnum; ++i) {
    auto at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr part;
    if (at > bytes.size() || bytes.size() - at < sizeof part) refuse("its headers are cut off");
    memcpy(&part, bytes.begin() + at, sizeof part);
    if (part.p_type == PT_INTERP) refuse("it needs shared libraries");
  }
}

kj::AutoCloseFd folderOf(const LocalContainer& target) {
  return openReplacedFolder(target.root());
}

// Asked of machined itself, so that apid can be replaced as well, and before it runs.
rpc::Services::Client servicesOf(Connection& machined) {
  return machined.bootstrap()
      .castAs<rpc::Machined>()
      .nodeRequest()
      .send()
      .getNode()
      .servicesRequest()
      .send()
      .getServices();
}

struct ServiceNow {
  int pid;
  bool up, checked;
  kj::String statement;
};

kj::Promise<ServiceNow> serviceNow(Invocation& call, Connection& machined,
                                   const LocalContainer& target, kj::StringPtr service) {
  kj::Promise<capnp::Response<rpc::Services::ListResults>> answer =
      servicesOf(machined).listRequest().send();
  auto list = co_await within(call.deps.timer, kAnswer, kj::mv(answer));
  for (auto one : list.getServices()) {
    if (one.getId() == service) {
      co_return ServiceNow{one.getPid(), isUp(one), one.getChecked(), statementOf(one).text};
    }
  }
  fail(ErrorKind::kNotFound, kj::str(target.name, " has no service ", service));
}

// Restarts the service and waits until it is up as another process. Returns its number in the node.
// `hint`: for the user of one that is not.
kj::Promise<int> restart(Invocation& call, const LocalContainer& target, kj::StringPtr service,
                         kj::StringPtr hint) {
  auto& timer = call.deps.timer;
  auto machined =
      co_await connectUnix(call.deps.lowLevel, timer, target.socket("machined"), kAnswer);
  auto before = co_await serviceNow(call, *machined, target, service);
  auto request = servicesOf(*machined).restartRequest();
  request.setId(service);
  kj::Promise<capnp::Response<rpc::Services::RestartResults>> answer = request.send();
  co_await within(timer, kAnswer, kj::mv(answer)).ignoreResult();
  auto until = timer.now() + kComesUp;
  auto last = kj::str("it did not answer");
  int seen = before.pid;
  auto seenSince = timer.now();
  while (timer.now() < until) {
    co_await timer.afterDelay(kLook);
    auto now = co_await serviceNow(call, *machined, target, service);
    if (now.pid != seen) {
      seen = now.pid;
      seenSince = timer.now();
    }
    // One whose health nobody checks is up until it dies.
    bool stays = now.checked || timer.now() - seenSince >= kStays;
    if (now.up && now.pid != before.pid && stays) co_return now.pid;
    last = kj::mv(now.statement);
  }
  fail(ErrorKind::kDeadlineExceeded, kj::str(target.name, ": ", service, " is not up after ",
                                             durationText(kComesUp), ": ", last, hint));
}

kj::Promise<int> runReplace(Invocation& call) {
  kj::StringPtr service = call.arguments[0];
  bool undo = call.on("undo");
  checkService(service);
  if (undo != (call.arguments.size() == 1)) {
    failUsage(undo ? "--undo takes no file" : "name the program, or use --undo");
  }
  auto cluster = requireLocalCluster(call);
  auto program = undo ? kj::String() : readFile(call.arguments[1], kMostBytes + 1);
  if (!undo) checkProgram(call.arguments[1], program);
  auto targets = co_await localContainers(call, cluster);
  auto hint =
      undo ? kj::String()
           : kj::str("; `talosctl debug replace --undo ", service, "` brings the node's own back");
  for (auto& target : targets) {
    auto began = call.deps.timer.now();
    if (!undo) {
      putProgram(folderOf(target), service, program);
    } else if (!takeProgram(folderOf(target), service)) {
      call.err(kj::str(target.name, ": ", service, " was not replaced\n"));
      continue;
    }
    auto pid = co_await restart(call, target, service, hint);
    auto took = durationText((call.deps.timer.now() - began) / kj::MILLISECONDS * kj::MILLISECONDS);
    call.out(kj::str(target.name, ": ", service, " runs ",
                     undo ? "the node's own program"_kj : kj::StringPtr(call.arguments[1]),
                     " (PID ", pid, ") after ", took, "\n"));
  }
  co_return 0;
}

}  // namespace

void addReplaceCommand(Command& debug) {
  auto& replace =
      debug.add("replace", "Run another program in place of a daemon's, on a local cluster");
  replace.arguments = "<service> [<file>]";
  replace.least = 1;
  replace.most = 2;
  replace.argumentChoices = {
      std::vector<kj::StringPtr>(std::begin(kServices), std::end(kServices))};
  replace.details =
      "On the nodes of --nodes, else on all of the cluster, which must be a local one of "
      "containers: this host's root puts the program into the node and restarts that one service. "
      "It lasts until --undo or until the node is rebooted.";
  replace.flag({.name = "undo", .help = "bring the node's own program back"});
  replace.flag({.name = "state",
                .kind = FlagKind::kText,
                .help = "folder of the clusters (default ~/.talos/clusters)"});
  replace.run = runReplace;
}

}  // namespace talos::talosctl
