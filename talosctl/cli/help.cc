#include "talosctl/cli/help.h"

#include <string.h>

#include <algorithm>

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

constexpr size_t kLeastText = 24;  // of a second column; a narrower one stands below the first

size_t charactersOf(kj::ArrayPtr<const char> text) {
  size_t count = 0;
  for (char c : text) count += (c & 0xc0) != 0x80;
  return count;
}

// `text` in lines of at most `width` characters, broken at blanks; a word that is longer has a line
// of its own. The lines after the first begin with `indent`.
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

// Two columns, the second aligned, or, where there is no room for it, below the first.
kj::String pairs(const Rows& rows, size_t columns) {
  size_t width = 0;
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

const Command& rootOf(const Command& command) {
  return command.parent == nullptr ? command : rootOf(*command.parent);
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
      fallback = durationText(user.patience);
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
  if (!command.children.empty()) {
    Rows rows;
    for (auto& child : command.children) {
      if (!child->hidden) rows.emplace_back(kj::str(child->name), kj::str(child->summary));
    }
    std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.first < b.first; });
    parts.add(kj::str("\nCommands:\n", pairs(rows, columns)));
  }
  for (auto* c = &command; c != &root; c = c->parent) {
    if (c->flags.empty()) continue;
    auto title = c == &command ? kj::str("Flags") : kj::str("Flags of \"", c->path(), "\"");
    parts.add(kj::str("\n", title, ":\n", flagLines(*c, command, columns)));
  }
  parts.add(kj::str("\nGlobal flags:\n", flagLines(root, command, columns)));
  return kj::strArray(parts, "");
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
