// list, usage
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include <map>

#include "common/base/fill-list.h"
#include "common/text/size.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

// Collects a limited number of rows for a table; prints other forms at once.
class FileCollector final : public rpc::FileSink::Server {
 public:
  FileCollector(Invocation& call, Format format, Table& table, kj::StringPtr node, bool longForm,
                const FileColumns& columns)
      : call(call),
        format(format),
        table(table),
        node(kj::str(node)),
        longForm(longForm),
        columns(columns) {}

  kj::Promise<void> files(FilesContext context) override {
    for (auto file : context.getParams().getFiles()) {
      if (format != Format::kTable) {
        streamRecord(call, format, node, dynamic<rpc::FileInfo>(file));
      } else if (file.getError().size() > 0) {
        call.err(
            kj::str(node, ": ", printable(file.getName()), ": ", printable(file.getError()), "\n"));
      } else {
        table.row(fileRow(node, file, longForm, columns));
        outLargeTable(call, table);
      }
    }
    return kj::READY_NOW;
  }

 private:
  Invocation& call;
  Format format;
  Table& table;
  kj::String node;
  bool longForm;
  const FileColumns& columns;
};

class UsageCollector final : public rpc::UsageSink::Server {
 public:
  // `missing` becomes true if a requested path could not be measured.
  UsageCollector(Invocation& call, Format format, Table& table, kj::StringPtr node, bool& missing)
      : call(call), format(format), table(table), node(kj::str(node)), missing(missing) {}

  kj::Promise<void> usages(UsagesContext context) override {
    for (auto usage : context.getParams().getUsages()) {
      if (usage.getError().size() > 0 && usage.getRelativeName() == ".") missing = true;
      if (format != Format::kTable) {
        streamRecord(call, format, node, dynamic<rpc::Usage>(usage));
      } else if (usage.getError().size() > 0) {
        call.err(kj::str(node, ": ", printable(usage.getName()), ": ", printable(usage.getError()),
                         "\n"));
      } else {
        auto size = call.on("humanize") ? decimalSize(usage.getSize()) : kj::str(usage.getSize());
        table.add(node, size, usage.getRelativeName());
        outLargeTable(call, table);
      }
    }
    return kj::READY_NOW;
  }

 private:
  Invocation& call;
  Format format;
  Table& table;
  kj::String node;
  bool& missing;
};

// Parses the letters of -t: f, d, l or L, together or as a list.
kj::Vector<rpc::FileType> fileTypes(const Invocation& call) {
  kj::Vector<rpc::FileType> types;
  for (auto& value : call.list("type")) {
    for (char letter : value) {
      switch (letter) {
        case 'f':
          types.add(rpc::FileType::REGULAR);
          break;
        case 'd':
          types.add(rpc::FileType::DIRECTORY);
          break;
        case 'l':
        case 'L':
          types.add(rpc::FileType::SYMLINK);
          break;
        default:
          failUsage(kj::str("invalid value \"", value,
                            "\" for flag --type: use f (file), d (directory), l (link)"));
      }
    }
  }
  return types;
}

uint32_t depthOf(const Invocation& call) {
  auto depth = call.number("depth");
  if (depth < 0) failUsage("flag --depth must not be negative");
  return uint32_t(kj::min(depth, int64_t(UINT32_MAX)));
}

// Levels that a list shows.
struct Levels {
  bool recurse;
  uint32_t depth;  // 0: no limit
};
// Returns what --depth and --recurse request. A negative depth is no limit, and a depth needs no
// --recurse, as in the original of today.
Levels levelsOf(const Invocation& call) {
  if (call.number("depth") < 0) return {true, 0};
  auto depth = depthOf(call);
  return {call.on("recurse") || depth > 1, depth};
}

kj::Promise<int> runFiles(Invocation& call) {
  auto types = fileTypes(call);
  auto levels = levelsOf(call);
  bool longForm = call.on("long");
  auto path = call.arguments.size() > 0 ? kj::StringPtr(call.arguments[0]) : "/"_kj;
  auto format = formatOf(call);
  FileColumns columns{.humanize = call.on("humanize"), .now = nanoseconds(call.deps.clock.now())};
  Table table = longForm ? Table({"NODE", "MODE", "UID", "GID", "SIZE(B)", "LASTMOD", "NAME"})
                         : Table({"NODE", "NAME"});
  auto session = co_await openSession(call);
  int status = co_await streamAll(
      call, *session, format, [&](kj::StringPtr name, rpc::Node::Client node) -> kj::Promise<void> {
        auto request = node.filesRequest().send().getFiles().listRequest();
        request.setRoot(path);
        request.setRecurse(levels.recurse);
        request.setDepth(levels.depth);
        auto list = request.initTypes(types.size());
        for (size_t i = 0; i < types.size(); ++i) list.set(i, types[i]);
        request.setSink(kj::heap<FileCollector>(call, format, table, name, longForm, columns));
        return request.send().ignoreResult();
      });
  if (!table.empty()) outTable(call, table.render());
  co_return status;
}

kj::Promise<int> runUsage(Invocation& call) {
  auto depth = depthOf(call);
  auto format = formatOf(call);
  if (call.arguments.size() == 0) call.arguments.add(kj::str("/"));
  Table table({"NODE", "SIZE", "NAME"});
  auto session = co_await openSession(call);
  std::map<kj::StringPtr, bool> missing;  // missing paths by node
  size_t complete = 0;
  co_await streamAll(
      call, *session, format, [&](kj::StringPtr name, rpc::Node::Client node) -> kj::Promise<void> {
        auto request = node.filesRequest().send().getFiles().diskUsageRequest();
        fillTexts(request.initPaths(call.arguments.size()), call.arguments);
        request.setDepth(depth);
        request.setAll(call.on("all"));
        request.setThreshold(call.number("threshold"));
        auto& incomplete = missing[name];
        request.setSink(kj::heap<UsageCollector>(call, format, table, name, incomplete));
        return request.send().ignoreResult().then([&]() { complete += !incomplete; });
      });
  if (!table.empty()) outTable(call, table.render());
  co_return complete > 0 ? 0 : 1;
}

kj::String localTime(int64_t seconds, const char* form) {
  time_t t = seconds;
  struct tm parts;
  char buffer[64];
  // The year is out of range.
  if (localtime_r(&t, &parts) == nullptr) return kj::str(seconds, " s");
  return kj::heapString(buffer, strftime(buffer, sizeof(buffer), form, &parts));
}

// Formats an age in the largest unit that fits: "3 hours ago".
kj::String ago(int64_t seconds) {
  struct Unit {
    uint64_t length;
    kj::StringPtr name;
  };
  static constexpr Unit kUnits[] = {
      {365 * 86400, "year"_kj}, {30 * 86400, "month"_kj}, {7 * 86400, "week"_kj}, {86400, "day"_kj},
      {3600, "hour"_kj},        {60, "minute"_kj},        {1, "second"_kj}};
  if (seconds == 0) return kj::str("now");
  auto length = seconds < 0 ? 0 - static_cast<uint64_t>(seconds) : static_cast<uint64_t>(seconds);
  for (auto& unit : kUnits) {
    auto count = length / unit.length;
    if (count > 0)
      return kj::str(count, " ", unit.name, count == 1 ? "" : "s",
                     seconds < 0 ? " from now" : " ago");
  }
  KJ_UNREACHABLE;
}

}  // namespace

kj::String goMode(uint32_t mode) {
  kj::Vector<char> text;
  switch (mode & S_IFMT) {
    case S_IFDIR:
      text.add('d');
      break;
    case S_IFLNK:
      text.add('L');
      break;
    case S_IFBLK:
      text.add('D');
      break;
    case S_IFIFO:
      text.add('p');
      break;
    case S_IFSOCK:
      text.add('S');
      break;
    case S_IFCHR:
      text.addAll("D"_kj);
      break;
    default:
      break;
  }
  if (mode & S_ISUID) text.add('u');
  if (mode & S_ISGID) text.add('g');
  if ((mode & S_IFMT) == S_IFCHR) text.add('c');
  if (mode & S_ISVTX) text.add('t');
  if (text.empty()) text.add('-');
  constexpr kj::StringPtr kBits = "rwxrwxrwx"_kj;
  for (int i = 0; i < 9; ++i) text.add(mode & (0400 >> i) ? kBits[i] : '-');
  return kj::heapString(text.asPtr());
}

kj::String modifiedText(int64_t seconds, const FileColumns& options) {
  constexpr int64_t kRecent = 180 * 86400;
  int64_t now = int64_t(options.now / 1'000'000'000), age;
  if (__builtin_sub_overflow(now, seconds, &age)) return kj::str(seconds, " s");
  if (options.humanize) return ago(age);
  return localTime(seconds, age < kRecent ? "%b %e %H:%M:%S" : "%b %e %Y %H:%M");
}

kj::Array<kj::String> fileRow(kj::StringPtr node, rpc::FileInfo::Reader file, bool longForm,
                              const FileColumns& options) {
  auto name = kj::str(file.getRelativeName());
  if (!longForm) return kj::arr(kj::str(node), kj::mv(name));
  if (file.getLink().size() > 0) name = kj::str(name, " -> ", file.getLink());
  return kj::arr(kj::str(node), goMode(file.getMode()), kj::str(file.getUid()),
                 kj::str(file.getGid()),
                 options.humanize ? decimalSize(file.getSize()) : kj::str(file.getSize()),
                 modifiedText(file.getModified(), options), kj::mv(name));
}

void addFileCommands(Command& root) {
  auto& list = root.add("list", "List the files of a directory");
  list.aliases = {"ls"};
  list.arguments = "[path]";
  list.most = 1;
  list.flag({.name = "long", .letter = "l", .help = "also show mode, owner, group, size and time"});
  list.flag({.name = "recurse", .letter = "r", .help = "list directories recursively"});
  list.flag({.name = "depth",
             .letter = "d",
             .kind = FlagKind::kNumber,
             .fallback = "0",
             .help = "levels to list; -1, and with --recurse 0, for no limit"});
  list.flag({.name = "humanize", .letter = "H", .help = "human-readable sizes and times"});
  list.flag({.name = "type",
             .letter = "t",
             .kind = FlagKind::kList,
             .help = "show only f (files), d (directories), l (links); may be combined"});
  addOutputFlag(list);
  list.run = runFiles;

  auto& usage = root.add("usage", "Show the disk usage of directories");
  usage.aliases = {"du"};
  usage.arguments = "[path...]";
  usage.most = kj::maxValue;
  usage.flag({.name = "all", .letter = "a", .help = "also show files"});
  usage.flag({.name = "humanize", .letter = "H", .help = "human-readable sizes"});
  usage.flag({.name = "depth",
              .letter = "d",
              .kind = FlagKind::kNumber,
              .fallback = "0",
              .help = "levels to show, the path itself counted; 0 for no limit"});
  usage.flag({.name = "threshold",
              .letter = "t",
              .kind = FlagKind::kNumber,
              .fallback = "0",
              .help = "hide entries smaller than this many bytes; if negative, larger ones"});
  addOutputFlag(usage);
  usage.run = runUsage;
}

}  // namespace talos::talosctl
