// A command of talosctl: data that describes how to call it, and a function that runs it.
//
// The tree of Commands is the single source for parsing (commandline.h), help (help.h) and shell
// completion (completion.h). A function `void addXCommands(Command& root)`, listed in
// talosctl/commands/commands.inc, adds commands:
//
//   kj::Promise<int> runLogs(Invocation& call);  // a coroutine; its value is the exit status
//
//   void addLogCommands(Command& root) {
//     auto& logs = root.add("logs", "Print the log of a service");
//     logs.arguments = "<id>", logs.least = 1, logs.most = 1;
//     logs.flag({.name = "follow", .letter = "f", .help = "follow the log"});
//     logs.interrupt = Interrupt::kIsSuccess;
//     logs.run = runLogs;
//   }
//
// A failure is an exception: fail() of common/base/error.h prints its message, failUsage() also
// prints the usage. Both give exit status 1.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/time.h>
#include <kj/vector.h>

#include <vector>

#include "common/base/node-layout.h"
#include "common/screen/drawn-text.h"
#include "common/text/foreign-text.h"

namespace talos::talosctl {

// The standard streams and their properties. Everything that talosctl shows goes through a Console,
// which makes the text harmless. Each function returns when the text is written.
class Console {
 public:
  virtual ~Console() noexcept(false) = default;

  // Writes text of any source: a terminal shows this text and does not interpret it, neither now
  // nor when it is read from a file (common/text/foreign-text.h).
  void out(kj::ArrayPtr<const char> text) { write(Stream::kOut, printableText(text)); }
  void err(kj::ArrayPtr<const char> text) { write(Stream::kErr, printableText(text)); }
  // Writes text that moves the cursor of a terminal or has colours.
  void out(const DrawnText& text) { write(Stream::kOut, text.asPtr()); }
  void err(const DrawnText& text) { write(Stream::kErr, text.asPtr()); }
  // Writes a file or a document, byte for byte; to a terminal, as text.
  void outBytes(kj::ArrayPtr<const char> bytes) {
    outIsTerminal() ? out(bytes) : write(Stream::kOut, bytes);
  }

  enum class Stream { kOut, kErr };
  // Writes the bytes as they are. Only the functions above call it, and consoles that wrap another
  // console.
  virtual void write(Stream stream, kj::ArrayPtr<const char> bytes) = 0;
  virtual bool outIsTerminal() const = 0;
  virtual bool errIsTerminal() const = 0;
  virtual bool inIsTerminal() const = 0;
  // False for a terminal that only shows lines (TERM=dumb): nothing is drawn in place on it.
  virtual bool canDraw() const { return true; }
  bool drawsOnOut() const { return outIsTerminal() && canDraw(); }
  bool drawsOnErr() const { return errIsTerminal() && canDraw(); }
  virtual unsigned columns() const = 0;  // width of the terminal; 80 if unknown
  virtual unsigned rows() const = 0;     // height of the terminal; 24 if unknown
  // Returns a counter that grows with every text written, so that a writer of lines in place can
  // tell whether its lines are still the last ones.
  virtual uint64_t written() const = 0;
  // Shows on a terminal what the command now waits for: "waiting for 10.0.0.2". Empty: shows
  // nothing, because a program of the user has the terminal, or because a quiet stream is normal.
  virtual void waiting(kj::StringPtr what) {}
};
constexpr kj::StringPtr kWaiting = "waiting"_kj;  // for a wait for something without a name

// Everything that a command may access besides its arguments.
struct Dependencies {
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::UnixEventPort& port;
  kj::Timer& timer;
  const kj::Clock& clock;  // wall clock: ages of events, RFC 3339 times
  Console& console;
  kj::Function<kj::Maybe<kj::String>(kj::StringPtr name)> environment;
  uint16_t apiPort = kApidPort;  // port of the API on every node; differs only in tests
  int input = 0;                 // standard input
  // Id of the requests that this call of talosctl makes (common/wire/request-id.h). Empty: the
  // nodes choose the ids.
  kj::StringPtr requestId = ""_kj;
  bool requested = false;  // a node was called with this id
  // A child has the terminal: Ctrl-C is meant for the child, not for talosctl.
  bool terminalLent = false;
};

enum class FlagKind {
  kBool,
  kText,
  kNumber,
  kList,   // repeatable; each value is a comma-separated list
  kTexts,  // repeatable; each value is taken unchanged
  kDuration
};

struct Flag {
  kj::StringPtr name;         // name without dashes
  kj::StringPtr letter = "";  // "f", or empty
  FlagKind kind = FlagKind::kBool;
  // Default as a user would type it; empty: false, "", 0, or no default.
  kj::StringPtr fallback = "";
  kj::StringPtr help = "";
  // The only values accepted, which completion offers. A choice that ends with "=" is the beginning
  // of a value.
  std::vector<kj::StringPtr> choices = {};
  bool required = false;
  bool hidden = false;
  // Reason why a flag of Talos has no meaning in this system, as the end of a sentence. Such
  // a flag is hidden, and accepts only values that request nothing: its fallback, an empty value,
  // false.
  kj::StringPtr refused = "";
};

// Time that an answer may take if neither the user nor the command sets another.
constexpr kj::Duration kDeadline = 30 * kj::SECONDS;

// Commands with one purpose, as help groups them.
struct Theme {
  kj::StringPtr title;
  std::vector<kj::StringPtr> commands;  // names, in the order in which help shows them
};

class Invocation;
using Run = kj::Promise<int> (*)(Invocation& call);

// The effect of the first SIGINT, SIGTERM or SIGHUP. The second one always ends the process.
enum class Interrupt {
  kIsFailure,   // the run is dropped, exit status 130
  kIsSuccess,   // the run is dropped, exit status 0: the user has seen enough of a stream
  kIsCommands,  // the command awaits Invocation::interrupted() and cleans up by itself
};

struct Command {
  kj::StringPtr name;
  kj::StringPtr summary;
  std::vector<kj::StringPtr> aliases = {};
  kj::StringPtr arguments = "";  // text for the help: "<id> [<action>]"
  kj::StringPtr details = "";    // further lines of help
  kj::StringPtr examples = "";   // command lines for a shell, one a line
  unsigned least = 0, most = 0;  // number of arguments
  // Choices by position, for completion only.
  std::vector<std::vector<kj::StringPtr>> argumentChoices = {};
  std::vector<Flag> flags = {};
  std::vector<Theme> themes = {};  // themes of the children; children without a theme come last
  bool hidden = false;
  bool anyFlags = false;  // unknown flags are accepted
  // Default of --timeout: the time for the answer or, for a command that waits for an outcome, for
  // the outcome.
  kj::Duration timeout = kDeadline;
  Interrupt interrupt = Interrupt::kIsFailure;
  Run run = nullptr;  // nullptr if the command is a group
  std::vector<kj::Own<Command>> children = {};
  Command* parent = nullptr;

  Command& add(kj::StringPtr name, kj::StringPtr summary);
  void flag(Flag flag);
  // Finds a child by its name or alias.
  kj::Maybe<Command&> child(kj::StringPtr argument);
  // Returns the names from the root on: "talosctl config endpoint".
  kj::String path() const;
};

// Finds the command below `root` by its names or aliases: "config endpoint"; `root` itself for "".
kj::Maybe<Command&> commandAt(Command& root, kj::StringPtr path);

// Returns the command without a parent.
const Command& rootOf(const Command& command);

// Returns the root with its persistent flags: --talosconfig --context --nodes --endpoints --timeout
// --help.
kj::Own<Command> newRoot();

// A single call of a command.
class Invocation {
 public:
  Invocation(Dependencies& deps, const Command& root, const Command& command)
      : deps(deps), root(root), command(command) {}

  Dependencies& deps;
  const Command& root;
  const Command& command;
  kj::Vector<kj::String> arguments;
  // Work of a successful run, in a few words: a line on stderr if that is a terminal. For
  // commands that print nothing else; a script sees silence.
  kj::String done;

  // True after a document of the result was printed: the next one in YAML begins with "---".
  bool hasDocument = false;

  // Adds a file to `done`: "wrote a.key, a.crt".
  void wrote(kj::StringPtr file);

  // Returns the value of a persistent flag or of a flag of the command, by its long name. An
  // undeclared name is a bug (throws).
  bool on(kj::StringPtr flag) const;
  kj::StringPtr text(kj::StringPtr flag) const;
  int64_t number(kj::StringPtr flag) const;
  // Returns the values of a list.
  kj::ArrayPtr<const kj::String> list(kj::StringPtr flag) const;
  kj::Duration duration(kj::StringPtr flag) const;
  bool given(kj::StringPtr flag) const;  // true if the user gave the flag
  // Returns true if the command has this flag.
  bool declared(kj::StringPtr flag) const { return values.find(flag) != nullptr; }

  // Returns --timeout, or if the user did not give it, the command's timeout or `fallback`.
  kj::Duration deadline() const { return deadline(command.timeout); }
  kj::Duration deadline(kj::Duration fallback) const;

  // Resolves at the first SIGINT, SIGTERM or SIGHUP; see Interrupt.
  kj::Promise<void> interrupted() { return interruption->addBranch(); }

  void out(kj::StringPtr text) { deps.console.out(text); }
  void out(const DrawnText& text) { deps.console.out(text); }
  void outBytes(kj::ArrayPtr<const char> bytes) { deps.console.outBytes(bytes); }
  void err(kj::StringPtr text) { deps.console.err(text); }
  void err(const DrawnText& text) { deps.console.err(text); }

  struct Value {
    bool given = false;
    kj::Vector<kj::String> texts;
  };  // filled in by the parser
  kj::TreeMap<kj::StringPtr, Value> values;
  kj::Own<kj::ForkedPromise<void>> interruption;

 private:
  const Value& value(kj::StringPtr flag) const;
};

// Reports a usage error: the run ends with the message and the command's usage on stderr, status 1.
[[noreturn]] void failUsage(kj::StringPtr message);
bool isUsage(const kj::Exception& e);

// Parses "1m30s", "500ms", "2h", "30d" or "45" (seconds). Returns nullptr if the text is not a
// duration.
kj::Maybe<kj::Duration> parseDuration(kj::StringPtr text);

}  // namespace talos::talosctl
