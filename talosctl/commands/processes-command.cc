// processes, once or as a screen that refreshes itself
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/lines.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using Processes = rpc::Machine::ProcessesResults;

SortBy sortOf(const Invocation& call) {
  return call.text("sort") == "cpu" ? SortBy::kCpu : SortBy::kResident;
}

capnp::RemotePromise<Processes> ask(rpc::Node::Client node) {
  return node.machineRequest().send().getMachine().processesRequest().send();
}

// The command as shown to the user: the arguments, with the full path of the program in front;
// kernel threads have only a name.
kj::String commandLine(rpc::Process::Reader p) {
  auto executable = p.getExecutable();
  kj::StringPtr arguments = p.getArgs();
  if (executable.size() == 0 && arguments.size() == 0) return kj::str(p.getCommand());
  if (arguments.size() == 0) return kj::str(executable);
  size_t end = arguments.findFirst(' ').orDefault(arguments.size());
  auto first = kj::heapString(arguments.slice(0, end));
  kj::StringPtr base = executable;
  KJ_IF_MAYBE (slash, executable.findLast('/')) {
    base = executable.slice(*slash + 1);
  }
  if (executable.size() > 0 && first == base) return kj::str(executable, arguments.slice(end));
  return kj::str(arguments);
}

// The alternate screen and, if there is a keyboard, its keys as they are pressed; until dropped.
class Screen {
 public:
  explicit Screen(Console& console) : console(console) {
    if (console.inIsTerminal()) {
      KJ_SYSCALL(tcgetattr(STDIN_FILENO, &before));
      auto raw = before;
      raw.c_lflag &= ~(ICANON | ECHO);
      KJ_SYSCALL(tcsetattr(STDIN_FILENO, TCSANOW, &raw));
    }
    console.out("\x1b[?1049h\x1b[?25l"_kj);
  }
  ~Screen() noexcept(false) {
    console.out("\x1b[?25h\x1b[?1049l"_kj);
    if (console.inIsTerminal()) tcsetattr(STDIN_FILENO, TCSANOW, &before);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Screen);

  void show(kj::StringPtr text) {
    size_t rows = console.rows(), columns = console.columns();
    kj::Vector<kj::String> lines;
    for (auto line : Lines(text)) {
      if (lines.size() + 1 >= rows) break;
      lines.add(kj::str(firstCharacters(line, columns), "\x1b[K"));
    }
    console.out(kj::str("\x1b[H", kj::strArray(lines, "\r\n"), "\x1b[J"));
  }

 private:
  Console& console;
  struct termios before;
};

kj::Promise<int> runWatch(Invocation& call) {
  auto& console = call.deps.console;
  auto sort = sortOf(call);
  auto session = co_await openSession(call);
  kj::Maybe<Screen> screen;
  kj::Maybe<kj::Own<kj::AsyncInputStream>> keys;
  if (console.outIsTerminal()) screen.emplace(console);
  if (console.outIsTerminal() && console.inIsTerminal()) {
    keys = call.deps.lowLevel.wrapInputFd(STDIN_FILENO);
  }
  for (;;) {
    auto answers = co_await askAll<Processes>(*session, ask);
    auto replies = KJ_MAP(a, answers.good) {
      return Reply<Processes>{a.node, a.value};
    };
    auto failures = KJ_MAP(f, answers.failures) {
      return kj::str(describe(f), "\n");
    };
    auto problems = kj::strArray(failures, ""), table = renderProcesses(replies, sort);
    KJ_IF_MAYBE (there, screen) {
      there->show(kj::str(problems, table));
    } else {
      call.err(problems);
      call.out(kj::str(table, "\n"));
    }
    if (replies.size() == 0 && answers.failures.size() > 0) {
      co_await session->client.connect(
          session->deadline);  // ends the command when no node can be reached
    }
    char key = 0;
    auto pause = call.deps.timer.afterDelay(1 * kj::SECONDS);
    KJ_IF_MAYBE (typed, keys) {
      pause = (*typed)->tryRead(&key, 1, 1).ignoreResult().exclusiveJoin(kj::mv(pause));
    }
    co_await pause;
    if (key == 'q' || key == 3) co_return 0;
    if (key == 'r' || key == 'm') sort = SortBy::kResident;
    if (key == 'c') sort = SortBy::kCpu;
  }
}

kj::Promise<int> runProcesses(Invocation& call) {
  bool table = formatOf(call) == Format::kTable;
  if (call.on("watch") && !table)
    failUsage("--watch works with the table only; it cannot be combined with --output");
  if (call.given("sort") && !table)
    failUsage("--sort works with the table only; it cannot be combined with --output");
  if (call.on("watch")) return runWatch(call);
  return tabulate<Processes>(call, ask,
                             [](Invocation& call, kj::ArrayPtr<const Reply<Processes>> replies) {
                               return renderProcesses(replies, sortOf(call));
                             });
}

}  // namespace

kj::String renderProcesses(kj::ArrayPtr<const Reply<Processes>> replies, SortBy sort) {
  struct Row {
    kj::StringPtr node;
    rpc::Process::Reader process;
  };
  std::vector<Row> rows;
  for (auto& r : replies) {
    for (auto p : r.value.getProcesses()) rows.push_back({r.node, p});
  }
  auto weight = [&](const Row& row) {
    return sort == SortBy::kCpu ? row.process.getCpuTimeMs() : row.process.getResidentMemory();
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](auto& a, auto& b) { return weight(a) > weight(b); });
  Table table({"NODE", "PID", "STATE", "THREADS", "CPU-TIME", "VIRTMEM", "RESMEM", "COMMAND"}, 2);
  for (auto& row : rows) {
    auto p = row.process;
    table.add(row.node, p.getPid(), p.getState(), p.getThreads(), fixed(p.getCpuTimeMs(), 1000, 2),
              humanSize(p.getVirtualMemory()), humanSize(p.getResidentMemory()), commandLine(p));
  }
  return table.render();
}

void addProcessCommands(Command& root) {
  auto& processes = root.add("processes", "List processes");
  processes.aliases = {"p", "ps"};
  processes.flag({.name = "sort",
                  .letter = "s",
                  .kind = FlagKind::kText,
                  .fallback = "rss",
                  .help = "sort by memory or CPU time, largest first",
                  .choices = {"rss", "cpu"}});
  processes.flag(
      {.name = "watch", .letter = "w", .help = "refresh every second, on a terminal in place"});
  processes.details = "Keys with --watch: r or m to sort by memory, c by CPU time, q to quit.";
  addOutputFlag(processes);
  processes.interrupt = Interrupt::kIsSuccess;
  processes.run = runProcesses;
}

}  // namespace talos::talosctl
