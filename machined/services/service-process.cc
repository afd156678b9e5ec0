#include "machined/services/service-process.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/node-messages.h"
#include "machined/services/replaced-program.h"

namespace talos::machined {

kj::String ChildBody::startedMessage(int pid) const {
  bool own = program == definition.command;  // not a developer's program
  if (own && definition.task.size() > 0) {
    return kj::str("Started task ", definition.task, " (PID ", pid, ")");
  }
  return kj::str("Started ", program, " (PID ", pid, ")");
}

kj::Promise<ServiceBody::Started> ChildBody::start(Environment environment, int output) {
  Process1::SpawnRequest request;
  request.slot = kj::str(definition.id);
  kj::Vector<kj::String> argv;
  program = kj::str(definition.command);
  DebugOrder order;
  KJ_IF_MAYBE (find, definition.debugOrder) order = (*find)();
  KJ_IF_MAYBE (other, order.program) program = kj::str(*other);
  for (auto& argument : withProgram(definition.argv, definition.command, program)) {
    argv.add(kj::mv(argument));
    if (order.stop && argv.size() == 1) argv.add(kj::str(kStopFirst));
  }
  KJ_IF_MAYBE (more, definition.arguments) {
    for (auto& argument : (*more)()) argv.add(kj::mv(argument));
  }
  request.argv = argv.releaseAsArray();
  request.environment = kj::mv(environment);
  request.cgroup = kj::str(definition.cgroup);
  request.memoryMax = definition.memoryMax;
  request.stdoutFd = output;
  for (auto& s : definition.sockets) {
    request.passed.add(Process1::SpawnRequest::Passed{s.fd, s.as});
  }
  last = nullptr;
  return process1.spawn(kj::mv(request)).then([this](Process1::Started started) {
    pid = started.pid;
    return Started{pid, false};
  });
}

kj::Promise<kj::Maybe<int>> ChildBody::find() {
  if (pid == 0) return Status(nullptr);
  return Status(pid);
}

void ChildBody::exited(Process1::Exit exit) {
  KJ_IF_MAYBE (w, waiting) {
    if (exit.pid == pid) {
      (*w)->fulfill(Status(exit.status));
      waiting = nullptr;
      return;
    }
  }
  last = kj::mv(exit);
}

kj::Promise<kj::Maybe<int>> ChildBody::ended() {
  KJ_IF_MAYBE (exit, last) {
    if (exit->pid == pid) return Status(exit->status);
  }
  auto paf = kj::newPromiseAndFulfiller<Status>();
  waiting = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

kj::Promise<void> ChildBody::signal(int number) {
  process1.signal(definition.id, number);
  return kj::READY_NOW;  // process 1 carries out requests in order
}

kj::String describeExit(int status, kj::Maybe<uint64_t> outOfMemory) {
  KJ_IF_MAYBE (limit, outOfMemory) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      if (*limit == 0) return kj::str("killed: out of memory");
      return kj::str("killed: out of memory (limit ", *limit >> 20, " MiB)");
    }
  }
  if (WIFSIGNALED(status)) {
    return kj::str("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  }
  return kj::str(messages::kExitedWithStatus, WEXITSTATUS(status));
}

uint64_t memoryKillsOf(kj::StringPtr events) {
  constexpr kj::StringPtr kKey = "oom_kill "_kj;
  for (auto line : Lines(events)) {
    if (!line.startsWith(kKey)) continue;
    return kj::heapString(line.slice(kKey.size(), line.size())).tryParseAs<uint64_t>().orDefault(0);
  }
  return 0;
}

uint64_t memoryKillsIn(kj::StringPtr cgroups, kj::StringPtr cgroup) {
  KJ_IF_MAYBE (events, tryReadFile(kj::str(cgroups, "/", cgroup, "/memory.events"))) {
    return memoryKillsOf(*events);
  }
  auto control = tryReadFile(kj::str(cgroups, "/memory/", cgroup, "/memory.oom_control"));
  return memoryKillsOf(control.orDefault(kj::String()));
}

}  // namespace talos::machined
