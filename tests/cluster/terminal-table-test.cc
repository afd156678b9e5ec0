// Twenty commands as people and scripts run them, with a node in a container: with closed streams,
// without a terminal, on terminals of several kinds, into a pipe whose reader goes, and interrupted
// at three moments. Prints a table in Markdown with the exit status and the first line of each.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <regex>
#include <set>
#include <utility>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using Words = std::vector<std::string>;

constexpr double kDeadline = 60;  // s, of one run beside other tests
constexpr double kSilence = 5;    // s after which Ctrl-C comes without any output
constexpr unsigned short kColumns = 60, kRows = 24;
constexpr size_t kShown = 40;  // characters of a first line in the table

enum class Moment { kNever, kStart, kHalf, kOutput };

struct Way {
  const char* name;
  bool terminal = false;
  int closed = -1;            // descriptor that is closed before the start
  bool readsOneLine = false;  // as `| head -1`
  std::string term = "xterm-256color";
  std::string locale = "C.UTF-8";
  Moment interrupt = Moment::kNever;
};

const Way kWays[] = {
    {.name = "no terminal"},
    {.name = "stdout closed", .closed = STDOUT_FILENO},
    {.name = "stdin closed", .closed = STDIN_FILENO},
    {.name = "60 columns", .terminal = true},
    {.name = "TERM=dumb", .terminal = true, .term = "dumb"},
    {.name = "LC_ALL=C", .terminal = true, .locale = "C"},
    {.name = "head -1", .readsOneLine = true},
    {.name = "Ctrl-C at its start", .terminal = true, .interrupt = Moment::kStart},
    {.name = "Ctrl-C after half of its time", .terminal = true, .interrupt = Moment::kHalf},
    {.name = "Ctrl-C at its first output", .terminal = true, .interrupt = Moment::kOutput}};

struct Tried {
  Words words;
  Words endless = {};       // added for Ctrl-C: the command runs until then
  std::string answer = {};  // typed on a terminal after the first output, which ends the command
  bool onNode = true;
};

const std::vector<Tried> kTried = {
    {.words = {"version"}},
    {.words = {"services"}},
    {.words = {"get", "links"}, .endless = {"--watch"}},
    {.words = {"get", "mc", "-o", "yaml"}},
    {.words = {"logs", "apid"}, .endless = {"--follow"}},
    {.words = {"dmesg"}, .endless = {"--follow"}},
    {.words = {"events", "--tail", "5", "--once"}},
    {.words = {"list", "/etc"}},
    {.words = {"read", "/etc/os-release"}},
    {.words = {"memory"}},
    {.words = {"processes"}, .endless = {"--watch"}},
    {.words = {"mounts"}},
    {.words = {"disks"}},
    {.words = {"stats"}},
    {.words = {"routes"}},
    {.words = {"health", "--wait-timeout", "1s"}},
    {.words = {"dashboard"}, .answer = "q"},
    {.words = {"config", "remove", "*-1"}, .answer = "n\n", .onNode = false},
    {.words = {"completion", "bash"}, .onNode = false},
    {.words = {"no-such-command"}, .onNode = false}};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Makes a terminal: ends[0] is its user, ends[1] the program. It writes line ends as they are and
// does not show what is typed.
void openTerminal(int (&ends)[2]) {
  KJ_SYSCALL(ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  KJ_SYSCALL(unlockpt(ends[0]));
  KJ_SYSCALL(ends[1] = ioctl(ends[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  struct winsize size = {};
  size.ws_row = kRows;
  size.ws_col = kColumns;
  KJ_SYSCALL(ioctl(ends[1], TIOCSWINSZ, &size));
  struct termios settings;
  KJ_SYSCALL(tcgetattr(ends[1], &settings));
  settings.c_lflag &= ~tcflag_t(ECHO);
  settings.c_oflag &= ~tcflag_t(ONLCR);
  KJ_SYSCALL(tcsetattr(ends[1], TCSANOW, &settings));
}

struct Ended {
  int status = -1;  // exit status; 128 + signal; -1: it still ran at the deadline
  std::string text;
  double seconds = 0;
};

// A run of a program in one of the ways.
class Running {
 public:
  Running(const Words& argv, const Way& way, const std::string& home) : way(way) {
    int ends[2];
    if (way.terminal) {
      openTerminal(ends);
    } else {
      KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    }
    // Room for a page: a longer output meets the end of its reader.
    if (way.readsOneLine) {
      KJ_SYSCALL(fcntl(ends[1], F_SETPIPE_SZ, 4096));
    }
    int executed[2];
    KJ_SYSCALL(pipe2(executed, O_CLOEXEC));
    std::vector<char*> arguments;
    for (auto& word : argv) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      prepare(ends[1], home);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(ends[1]);
    close(executed[1]);
    output = ends[0];
    char none;
    (void)!read(executed[0], &none, 1);  // returns when the program runs
    close(executed[0]);
    began = now();
    pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    KJ_ASSERT(pidfd >= 0);
  }
  ~Running() {
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    closeOutput();
    if (pidfd >= 0) close(pidfd);
  }
  Running(const Running&) = delete;

  // Types the answer after the first output, or presses Ctrl-C. `usual` is the time that the
  // command takes, in seconds.
  Ended end(const std::string& answer, double usual) {
    bool interrupted = way.interrupt == Moment::kNever;
    bool answered = answer.empty() || !way.terminal || !interrupted;
    while (output >= 0 && now() < began + kDeadline) {
      auto due = dueAt(usual);
      if (!interrupted && now() >= due) {
        kill(pid, SIGINT);
        interrupted = true;
      }
      if (!answered && !text.empty()) {
        (void)!write(output, answer.data(), answer.size());
        answered = true;
      }
      readUntil(interrupted ? began + kDeadline : due);
      if (way.readsOneLine && contains(text, "\n")) closeOutput();
    }
    auto status = statusAtEnd();
    return {.status = status, .text = text, .seconds = now() - began};
  }

 private:
  const Way& way;
  pid_t pid = -1;
  int output = -1, pidfd = -1;
  double began = 0;
  std::string text;

  // Runs in the child.
  void prepare(int end, const std::string& home) const {
    setsid();
    if (way.terminal) ioctl(end, TIOCSCTTY, 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(way.terminal ? end : null, STDIN_FILENO);
    dup2(end, STDOUT_FILENO);
    dup2(way.readsOneLine ? null : end, STDERR_FILENO);
    if (way.closed >= 0) close(way.closed);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    for (auto name : {"COLUMNS", "NO_COLOR", "LC_CTYPE", "LANG"}) unsetenv(name);
    setenv("TERM", way.term.c_str(), 1);
    setenv("LC_ALL", way.locale.c_str(), 1);
    setenv("HOME", home.c_str(), 1);
  }
  double dueAt(double usual) const {
    switch (way.interrupt) {
      case Moment::kStart:
        return began;
      case Moment::kHalf:
        return began + usual / 2;
      case Moment::kOutput:
        return text.empty() ? began + usual + kSilence : began;
      case Moment::kNever:
        break;
    }
    return began + kDeadline;
  }
  void readUntil(double until) {
    struct pollfd wait = {.fd = output, .events = POLLIN, .revents = 0};
    auto left = std::max(0.0, until - now());
    if (poll(&wait, 1, static_cast<int>(left * 1000) + 1) <= 0) return;
    char buffer[4096];
    auto size = read(output, buffer, sizeof buffer);
    if (size > 0) {
      text.append(buffer, static_cast<size_t>(size));
    } else if (size == 0 || errno != EINTR) {  // EIO: no program has the terminal any more
      closeOutput();
    }
  }
  void closeOutput() {
    if (output >= 0) close(output);
    output = -1;
  }
  int statusAtEnd() {
    struct pollfd wait = {.fd = pidfd, .events = POLLIN, .revents = 0};
    auto left = std::max(0.0, began + kDeadline - now());
    bool ended = poll(&wait, 1, static_cast<int>(left * 1000) + 1) == 1;
    if (!ended) kill(pid, SIGKILL);
    int raw = 0;
    KJ_SYSCALL(waitpid(pid, &raw, 0));
    pid = -1;
    if (!ended) return -1;
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  }
};

std::string withoutSequences(const std::string& text) {
  static const std::regex sequence("\x1b\\[[0-9;?]*[A-Za-z]|\r");
  return std::regex_replace(text, sequence, "");
}

bool continues(char byte) {  // of a character in UTF-8
  return (byte & 0xc0) == 0x80;
}

size_t widestLine(const std::string& text) {
  size_t widest = 0;
  for (auto& line : harness::lines(withoutSequences(text))) {
    auto bytes = std::count_if(line.begin(), line.end(), [](char c) { return !continues(c); });
    widest = std::max(widest, static_cast<size_t>(bytes));
  }
  return widest;
}

// The first line that is not empty, cut to kShown characters, for a cell in Markdown.
std::string firstLine(const std::string& text) {
  std::string shown;
  for (auto& line : harness::lines(withoutSequences(text))) {
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    size_t characters = 0;
    for (char c : line) {
      if (!continues(c) && ++characters > kShown) break;
      if (c == '|') shown += '\\';
      shown += c == '`' ? '\'' : c;
    }
    break;
  }
  return shown;
}

std::string cellOf(const Way& way, const Ended& ended) {
  auto cell = std::to_string(ended.status);
  auto line = firstLine(ended.text);
  if (!line.empty()) cell += " `" + line + "`";
  if (way.terminal && way.interrupt == Moment::kNever) {
    cell += ", " + std::to_string(widestLine(ended.text)) + " wide";
  }
  return cell;
}

std::set<int> allowedStatus(const Way& way, const Tried& tried, int usual) {
  if (way.interrupt != Moment::kNever) return {0, usual, 128 + SIGINT};
  if (way.readsOneLine) return {usual, 128 + SIGPIPE};
  if (way.terminal && !tried.answer.empty()) return {0};
  return {usual};
}

void expectSound(const Way& way, const Tried& tried, const Ended& ended, int usual) {
  auto& text = ended.text;
  EXPECT_NE(ended.status, -1) << "still runs after " << kDeadline << " s:\n" << text;
  EXPECT_TRUE(allowedStatus(way, tried, usual).contains(ended.status))
      << ended.status << ", usually " << usual << ":\n"
      << text;
  if (!way.terminal || way.term == "dumb") {
    EXPECT_FALSE(contains(text, "\x1b")) << text;
  }
  if (way.locale == "C") {
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; }))
        << text;
  }
  // The alternate screen and the cursor: what was switched is switched back.
  constexpr std::pair<const char*, const char*> kSwitches[] = {{"\x1b[?1049h", "\x1b[?1049l"},
                                                               {"\x1b[?25l", "\x1b[?25h"}};
  for (auto& [on, off] : kSwitches) {
    auto last = text.rfind(on);
    if (last == std::string::npos) continue;
    auto back = text.rfind(off);
    EXPECT_TRUE(back != std::string::npos && back > last) << text;
  }
}

struct TalosctlInAllWays : testing::Test {
  Cluster cluster{"terminals", {"--provisioner=container", "--no-uplink", "--workers", "0"}};

  // A second context, which a command asks about.
  void SetUp() override {
    auto copy = cluster.folder() + "/second";
    std::ofstream(copy) << harness::slurp(cluster.talosconfig());
    cluster.ok({"config", "merge", copy});
    auto contexts = cluster.ok({"config", "contexts"});
    ASSERT_TRUE(contains(contexts, "-1 ")) << contexts;
  }
  Ended run(const Tried& tried, const Way& way, double usual) const {
    Words words;
    if (tried.onNode) words = {"-n", Cluster::kFirst};
    words.insert(words.end(), tried.words.begin(), tried.words.end());
    if (way.interrupt != Moment::kNever) {
      words.insert(words.end(), tried.endless.begin(), tried.endless.end());
    }
    return Running(cluster.command(words), way, cluster.folder()).end(tried.answer, usual);
  }
};

}  // namespace

// Catches: a command that hangs or crashes without one of its streams, whose status depends on
// them, or that Ctrl-C does not end; escape sequences in a file, on a terminal that only shows
// lines, or left switched on; characters that a locale does not have.
TEST_F(TalosctlInAllWays, EndsInTimeWithTheSameStatus) {
  std::string table = "| talosctl |", rule = "|---|";
  for (auto& way : kWays) {
    table += std::string(" ") + way.name + " |";
    rule += "---|";
  }
  table += "\n" + rule + "\n";
  for (auto& tried : kTried) {
    std::string name;
    for (auto& word : tried.words) name += (name.empty() ? "" : " ") + word;
    table += "| `" + name + "` |";
    Ended usual;
    for (auto& way : kWays) {
      SCOPED_TRACE("talosctl " + name + ", " + way.name);
      auto ended = run(tried, way, usual.seconds);
      if (&way == &kWays[0]) {
        usual = ended;
        EXPECT_TRUE(usual.status == 0 || usual.status == 1) << usual.text;
      }
      expectSound(way, tried, ended, usual.status);
      table += " " + cellOf(way, ended) + " |";
    }
    table += "\n";
  }
  printf("%s", table.c_str());
}

}  // namespace talos
