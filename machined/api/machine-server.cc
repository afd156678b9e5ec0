#include "machined/api/machine-server.h"

#include <kj/debug.h>
#include <openssl/crypto.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "common/base/lines.h"
#include "common/base/within.h"
#include "machined/api/cgroup-facts.h"
#include "machined/api/counter-files.h"
#include "machined/api/memory-lines.h"
#include "machined/api/socket-table.h"
#include "machined/config/trust/client-certificate.h"

namespace talos::machined {
namespace {

constexpr kj::Duration kDeadline = 10 * kj::SECONDS;
constexpr kj::Duration kPreview = 25 * kj::SECONDS;  // etcd has 20 s
constexpr unsigned kMostRoles = 16;                  // three roles exist
constexpr unsigned kMostLabels = 16;
// An answer is one message, of 8 MiB at most: some 250 bytes for a socket, 1 KiB for a group.
constexpr size_t kMostSockets = 16'384;
constexpr size_t kMostCgroups = 4096;

uint64_t kernelUptimeMs() {
  struct timespec now;
  KJ_SYSCALL(clock_gettime(CLOCK_BOOTTIME, &now));
  return uint64_t(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

// Returns the architecture's usual name: uname says x86_64.
kj::StringPtr architecture(const struct utsname& name) {
  kj::StringPtr machine = name.machine;
  if (machine == "x86_64") return "amd64"_kj;
  if (machine == "aarch64") return "arm64"_kj;
  return machine;
}

kj::Array<kj::String> labelsOf(capnp::List<capnp::Text>::Reader given) {
  if (given.size() > kMostLabels) {
    fail(ErrorKind::kInvalidArgument, kj::str("a node has at most ", kMostLabels,
                                              " system partitions; ", given.size(), " were named"));
  }
  return textsOf(given);
}

}  // namespace

MachineServer::MachineServer(ReadPool& pool, kj::Timer& timer, MachineIdentity identity,
                             MachineOperations& operations, kj::Own<ClientCalls> calls,
                             MachinePaths paths)
    : pool(pool),
      timer(timer),
      identity(kj::mv(identity)),
      operations(operations),
      calls(kj::mv(calls)),
      paths(paths) {}

template <typename F>
auto MachineServer::onPool(kj::StringPtr doing, F&& work) -> kj::Promise<decltype(work())> {
  auto slot = calls->enter(CallKind::kRead);
  return within(timer, kDeadline, pool.run(doing, kj::fwd<F>(work), calls->number()),
                kj::str(doing, " timed out after ", kDeadline / kj::SECONDS, " s"))
      .attach(kj::mv(slot));
}

kj::String MachineServer::bootId() const {
  return firstLine(readFile(kj::str(paths.proc, "/sys/kernel/random/boot_id")));
}

uint64_t MachineServer::uptimeMs() const {
  auto kernel = kernelUptimeMs();
  if (identity.mode != "container") return kernel;
  return kernel - kj::min(kernel, processStartMs(paths.proc, 1).orDefault(0));
}

kj::Promise<void> MachineServer::version(VersionContext context) {
  struct utsname name;
  KJ_SYSCALL(uname(&name));
  auto out = context.getResults();
  out.setTag(identity.tag);
  out.setSha(identity.sha);
  out.setBuilt(identity.built);
  out.setCompiler(identity.compiler);
  out.setOs("linux");
  out.setArch(architecture(name));
  out.setPlatform(identity.platform);
  out.setMode(identity.mode);
  out.setBootId(bootId());
  out.setHostname(name.nodename);
  out.setUptimeMs(uptimeMs());
  return kj::READY_NOW;
}

kj::Promise<void> MachineServer::status(StatusContext context) {
  operations.fillStatus(context.getResults());
  return kj::READY_NOW;
}

kj::Promise<void> MachineServer::memory(MemoryContext context) {
  auto lines = readMemory(paths.proc, paths.cgroups, paths.memory);
  fillList(context.getResults().initFields(lines.size()), lines, [](auto out, auto& line) {
    out.setName(line.name);
    out.setValue(line.value);
    out.setUnit(line.unit);
  });
  return kj::READY_NOW;
}

kj::Promise<void> MachineServer::mounts(MountsContext context) {
  auto facts =
      co_await onPool("reading the mounts", [proc = paths.proc] { return readMounts(proc); });
  fillList(context.getResults().initMounts(facts.size()), facts, [](auto out, auto& fact) {
    out.setFilesystem(fact.mount.filesystem);
    out.setMountedOn(fact.mount.path);
    out.setSize(fact.size);
    out.setAvailable(fact.available);
    out.setFree(fact.free);
    out.setFiles(fact.files);
    out.setFilesFree(fact.filesFree);
    out.setType(fact.mount.type);
    out.setReadOnly(fact.readOnly);
  });
}

kj::Promise<void> MachineServer::processes(ProcessesContext context) {
  auto facts =
      co_await onPool("reading the processes", [proc = paths.proc] { return readProcesses(proc); });
  const uint64_t ticks = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
  fillList(context.getResults().initProcesses(facts.size()), facts, [&](auto out, auto& fact) {
    auto& stat = fact.stat;
    out.setPid(stat.pid);
    out.setPpid(stat.ppid);
    out.setState(kj::str(stat.state));
    out.setThreads(stat.threads);
    out.setCpuTimeMs(stat.cpuTicks * 1000 / ticks);
    out.setVirtualMemory(stat.virtualBytes);
    out.setResidentMemory(stat.residentPages * page);
    out.setCommand(stat.command);
    out.setExecutable(fact.executable);
    out.setArgs(fact.args);
  });
}

kj::Promise<void> MachineServer::stats(StatsContext context) {
  auto facts = co_await onPool("reading the cgroups",
                               [root = paths.cgroups, services = operations.runningServices()] {
                                 return readStats(root, services);
                               });
  fillList(context.getResults().initStats(facts.size()), facts, [](auto out, auto& fact) {
    out.setNamespace("system");
    out.setId(fact.id);
    out.setMemoryUsage(fact.memoryBytes);
    out.setCpuUsageNs(fact.cpuNanoseconds);
  });
}

kj::Promise<void> MachineServer::reboot(RebootContext context) {
  context.getResults().setBootId(bootId());  // first, because there may be no time afterwards
  return operations.reboot();
}

kj::Promise<void> MachineServer::shutdown(ShutdownContext context) {
  context.getResults().setBootId(bootId());
  return operations.shutdown();
}

kj::Promise<void> MachineServer::previewReset(PreviewResetContext context) {
  auto slot = calls->enter(CallKind::kRead);
  auto params = context.getParams();
  auto preview = operations.previewReset(labelsOf(params.getLabels()), params.getGraceful());
  auto facts = co_await within(timer, kPreview, kj::mv(preview),
                               kj::str("reading the disks, and asking etcd, timed out after ",
                                       kPreview / kj::SECONDS, " s"));
  auto out = context.getResults();
  out.setDisk(facts.disk);
  fillList(out.initTargets(facts.targets.size()), facts.targets, [](auto out, auto& fact) {
    out.setLabel(fact.label);
    out.setDevice(fact.device);
    out.setSize(fact.bytes);
  });
  KJ_IF_MAYBE (outlook, facts.etcd) out.setEtcd(outlook->getMembers());
  out.setEtcdProblem(facts.etcdProblem);
}

kj::Promise<void> MachineServer::reset(ResetContext context) {
  auto params = context.getParams();
  context.getResults().setBootId(bootId());
  return operations.reset(labelsOf(params.getLabels()), params.getGraceful(), params.getReboot());
}

kj::Promise<void> MachineServer::time(TimeContext context) {
  auto slot = calls->enter(CallKind::kTime);
  auto answer = co_await operations.queryTime(kj::str(context.getParams().getServer()));
  auto nanoseconds = [](kj::Date d) { return (d - kj::UNIX_EPOCH) / kj::NANOSECONDS; };
  auto out = context.getResults().initAnswer();
  out.setServer(answer.server);
  out.setLocal(nanoseconds(answer.local));
  out.setRemote(nanoseconds(answer.remote));
}

kj::Promise<void> MachineServer::netstat(NetstatContext context) {
  auto facts = co_await onPool("reading the sockets",
                               [proc = paths.proc, process = context.getParams().getProcess()] {
                                 return readSockets(proc, process, getpid(), kMostSockets);
                               });
  auto out = context.getResults();
  out.setLeftOut(facts.leftOut);
  fillList(out.initSockets(facts.sockets.size()), facts.sockets, [](auto out, auto& fact) {
    out.setProtocol(fact.protocol);
    out.setLocalAddress(fact.localAddress);
    out.setLocalPort(fact.localPort);
    out.setRemoteAddress(fact.remoteAddress);
    out.setRemotePort(fact.remotePort);
    out.setState(fact.state);
    out.setReceiveQueue(fact.receiveQueue);
    out.setSendQueue(fact.sendQueue);
    out.setUid(fact.uid);
    out.setInode(fact.inode);
    out.setPid(fact.pid);
    out.setProgram(fact.program);
  });
}

kj::Promise<void> MachineServer::cgroups(CgroupsContext context) {
  auto facts = co_await onPool("reading the control groups",
                               [root = paths.cgroups] { return readCgroups(root, kMostCgroups); });
  auto found = facts->getRoot<rpc::Machine::CgroupsResults>().asReader();
  auto out = context.getResults();
  out.setGroups(found.getGroups());
  out.setLeftOut(found.getLeftOut());
}

kj::Promise<void> MachineServer::dependencies(DependenciesContext context) {
  auto all = operations.dependencies();
  fillList(context.getResults().initControllers(all.size()), all, [](auto out, auto& links) {
    out.setName(links.name);
    out.setDaemon(links.daemon);
    fillList(out.initReads(links.reads.size()), links.reads, [](auto out, auto& input) {
      out.setNamespace(input.ns);
      out.setType(input.type);
      out.setId(input.id);
    });
    fillTexts(out.initWrites(links.writes.size()), links.writes);
  });
  return kj::READY_NOW;
}

kj::Promise<void> MachineServer::counters(CountersContext context) {
  auto files =
      co_await onPool("reading the kernel's counters",
                      [proc = paths.proc, sys = paths.sys, which = context.getParams().getOf()] {
                        return readCounters(proc, sys, which);
                      });
  fillList(context.getResults().initFiles(files.size()), files, [](auto out, auto& file) {
    out.setPath(file.path);
    out.setText(file.text);
  });
}

kj::Promise<void> MachineServer::samples(SamplesContext context) {
  operations.fillSamples(context.getParams().getLastMs(), context.getResults());
  return kj::READY_NOW;
}

kj::Promise<void> MachineServer::kubeconfig(KubeconfigContext context) {
  auto text = co_await operations.kubeconfig();
  context.getResults().setKubeconfig(text.bytes());
}

kj::Promise<void> MachineServer::clientCertificate(ClientCertificateContext context) {
  auto found = operations.authority();
  if (found == nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         "this node does not have the key of machine.ca; use a control-plane node");
  }
  auto authority = kj::mv(KJ_ASSERT_NONNULL(found));
  auto params = context.getParams();
  if (params.getRoles().size() > kMostRoles) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("a certificate has at most ", kMostRoles, " roles; ", params.getRoles().size(),
                 " were asked for"));
  }
  auto roles = textsOf(params.getRoles());
  auto request = kj::heapString(params.getRequest().asChars());
  auto ca = kj::str(authority.certificate);
  auto certificate = co_await onPool(
      "signing a certificate",
      [authority = kj::mv(authority), request = kj::mv(request), roles = kj::mv(roles),
       lifetime = params.getLifetimeS(), now = kj::systemPreciseCalendarClock().now()] {
        // The library keeps a random number generator for each thread, and does not free it for a
        // thread that still exists when the process exits.
        KJ_DEFER(OPENSSL_thread_stop());
        return signClientCertificate(authority.certificate, authority.key, request.asArray(), roles,
                                     lifetime, now);
      });
  auto out = context.getResults();
  out.setCa(ca.asBytes());
  out.setCertificate(certificate.asBytes());
}

}  // namespace talos::machined
