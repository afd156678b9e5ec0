#include "talosctl/cli/help.h"

#include <string.h>

#include <algorithm>
#include <map>

#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

namespace {

kj::StringPtr placeholder(FlagKind kind) {
  switch (kind) {
    case FlagKind::kBool:
      return "";
    case FlagKind::kText:
    case FlagKind::kTexts:
      return " text";
    case FlagKind::kNumber:
      return " number";
    case FlagKind::kList:
      return " list";
    case FlagKind::kDuration:
      return " duration";
  }
  KJ_UNREACHABLE;
}

// Width of a second column; a narrower second column moves below the first.
constexpr size_t kLeastText = 24;

size_t charactersOf(kj::ArrayPtr<const char> text) {
  size_t count = 0;
  for (char c : text) count += (c & 0xc0) != 0x80;
  return count;
}

// Breaks `text` at blanks into lines of at most `width` characters; a longer word has its own line.
// All lines but the first begin with `indent`.
kj::String wrapped(kj::ArrayPtr<const char> text, size_t width, kj::StringPtr indent) {
  kj::Vector<char> out;
  size_t used = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\n') {
      out.addAll(kj::str("\n", indent));
      used = 0;
      ++i;
      continue;
    }
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && text[end] != ' ' && text[end] != '\n') ++end;
    auto word = text.slice(i, end);
    auto length = charactersOf(word);
    if (used > 0 && used + 1 + length > width) {
      out.addAll(kj::str("\n", indent));
      used = 0;
    }
    if (used > 0) out.add(' ');
    out.addAll(word);
    used += length + (used > 0 ? 1 : 0);
    i = end;
  }
  return kj::heapString(out.asPtr());
}

using Rows = std::vector<std::pair<kj::String, kj::String>>;

// Lays out two columns. The second column is aligned, also with other lists whose first column is
// at most `width` wide; if there is no room beside the first column, it moves below.
kj::String pairs(const Rows& rows, size_t columns, size_t width = 0) {
  for (auto& row : rows) width = std::max(width, row.first.size());
  size_t begin = width + 5;
  bool beside = begin + kLeastText <= columns;
  if (!beside) begin = 8;
  auto indent = kj::heapString(begin);
  memset(indent.begin(), ' ', begin);
  auto room = columns > begin ? columns - begin : 1;
  kj::Vector<kj::String> lines;
  for (auto& row : rows) {
    auto gap =
        beside ? kj::str(kj::repeat(' ', begin - 2 - row.first.size())) : kj::str("\n", indent);
    lines.add(kj::str("  ", row.first, gap, wrapped(row.second, room, indent), "\n"));
  }
  return kj::strArray(lines, "");
}

kj::String usageLine(const Command& command, size_t columns) {
  auto line = command.path();
  if (!command.children.empty()) line = kj::str(line, " <command>");
  if (command.arguments.size() > 0) line = kj::str(line, " ", command.arguments);
  line = kj::str(line, " [flags]");
  return kj::str("Usage:\n  ", wrapped(line, columns > 2 ? columns - 2 : 1, "      "), "\n");
}

kj::String flagLines(const Command& command, const Command& user, size_t columns) {
  Rows rows;
  for (auto& flag : flagTextsOf(command, user)) {
    rows.emplace_back(kj::mv(flag.name), kj::mv(flag.text));
  }
  return pairs(rows, columns);
}

// Lists the commands of a group: by theme, the rest by name.
kj::String commandLists(const Command& command, size_t columns) {
  size_t width = 0;
  Rows rest;
  std::map<kj::StringPtr, kj::StringPtr> shown;  // summaries
  for (auto& child : command.children) {
    if (child->hidden) continue;
    shown[child->name] = child->summary;
    width = std::max(width, child->name.size());
  }
  kj::Vector<kj::String> lists;
  for (auto& theme : command.themes) {
    Rows rows;
    for (auto name : theme.commands) {
      auto found = shown.find(name);
      if (found == shown.end()) continue;
      rows.emplace_back(kj::str(name), kj::str(found->second));
      shown.erase(found);
    }
    if (!rows.empty()) lists.add(kj::str("\n", theme.title, ":\n", pairs(rows, columns, width)));
  }
  for (auto& [name, summary] : shown) rest.emplace_back(kj::str(name), kj::str(summary));
  auto title = command.themes.empty() ? "Commands"_kj : "Other commands"_kj;
  if (!rest.empty()) lists.add(kj::str("\n", title, ":\n", pairs(rest, columns, width)));
  return kj::strArray(lists, "");
}

// Lays out command lines for a shell. A long line continues after a backslash, so that it can be
// copied.
kj::String exampleLines(const Command& command, size_t columns) {
  if (command.examples.size() == 0) return kj::str();
  constexpr size_t kAround = 6;  // up to four blanks before, " \\" after
  kj::Vector<kj::String> lines;
  for (size_t begin = 0; begin < command.examples.size();) {
    auto rest = command.examples.slice(begin);
    auto size = rest.findFirst('\n').orDefault(rest.size());
    auto line = wrapped(rest.slice(0, size), columns > kAround ? columns - kAround : 1, "    ");
    kj::StringPtr separator = "";
    for (size_t at = 0; at < line.size();) {
      auto part = line.slice(at);
      auto end = part.findFirst('\n').orDefault(part.size());
      lines.add(kj::str(separator, at == 0 ? "  " : "", part.slice(0, end)));
      separator = " \\\n";
      at += end + 1;
    }
    lines.add(kj::str("\n"));
    begin += size + 1;
  }
  return kj::str("\nExamples:\n", kj::strArray(lines, ""));
}

}  // namespace

std::vector<FlagText> flagTextsOf(const Command& command, const Command& user) {
  std::vector<FlagText> texts;
  for (auto& flag : command.flags) {
    if (flag.hidden) continue;
    auto name = kj::str(flag.letter.size() > 0 ? kj::str("-", flag.letter, ", ") : kj::str("    "),
                        "--", flag.name, placeholder(flag.kind));
    auto text = kj::str(flag.help);
    if (!flag.choices.empty()) text = kj::str(text, " (", kj::strArray(flag.choices, ", "), ")");
    if (flag.required) text = kj::str(text, " (required)");
    auto fallback = kj::str(flag.fallback);
    if (flag.name == "timeout" && command.parent == nullptr) {
      fallback = durationText(user.timeout);
      if (fallback.endsWith("m0s"))
        fallback = kj::heapString(fallback.slice(0, fallback.size() - 2));
    }
    if (fallback.size() > 0) text = kj::str(text, " (default ", fallback, ")");
    texts.push_back(FlagText{kj::mv(name), kj::mv(text)});
  }
  return texts;
}

kj::String usageText(const Command& command, size_t columns) {
  auto& root = rootOf(command);
  kj::Vector<kj::String> parts;
  parts.add(usageLine(command, columns));
  if (!command.aliases.empty()) {
    parts.add(
        kj::str("\nAliases:\n  ", command.name, ", ", kj::strArray(command.aliases, ", "), "\n"));
  }
  parts.add(exampleLines(command, columns));
  parts.add(commandLists(command, columns));
  for (auto* c = &command; c != &root; c = c->parent) {
    if (c->flags.empty()) continue;
    auto title = c == &command ? kj::str("Flags") : kj::str("Flags of \"", c->path(), "\"");
    parts.add(kj::str("\n", title, ":\n", flagLines(*c, command, columns)));
  }
  parts.add(kj::str("\nGlobal flags:\n", flagLines(root, command, columns)));
  if (!command.children.empty()) {
    auto hint = kj::str("Use \"", command.path(), " <command> --help\" for more about a command.");
    parts.add(kj::str("\n", wrapped(hint, columns, ""), "\n"));
  }
  return kj::strArray(parts, "");
}

kj::String usageHint(const Command& command, size_t columns) {
  auto hint = kj::str("Use \"", command.path(), " --help\" for its ",
                      command.children.empty() ? "flags." : "commands.");
  return kj::str(usageLine(command, columns), "\n", wrapped(hint, columns, ""), "\n");
}

kj::String helpText(const Command& command, size_t columns) {
  auto details = command.details.size() > 0
                     ? kj::str("\n", wrapped(command.details, columns, ""), "\n")
                     : kj::str();
  return kj::str(wrapped(command.summary, columns, ""), "\n", details, "\n",
                 usageText(command, columns));
}

size_t helpColumns(Dependencies& deps) {
  KJ_IF_MAYBE (text, deps.environment("COLUMNS")) {
    auto number = text->tryParseAs<size_t>().orDefault(0);
    if (number > 0) return number;
  }
  return deps.console.columns();
}

}  // namespace talos::talosctl
