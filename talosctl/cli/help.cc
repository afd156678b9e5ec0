#include "talosctl/cli/help.h"

#include <algorithm>

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

// Two columns, the second aligned.
kj::String pairs(const std::vector<std::pair<kj::String, kj::String>>& rows) {
  size_t width = 0;
  for (auto& row : rows) width = std::max(width, row.first.size());
  kj::Vector<kj::String> lines;
  for (auto& row : rows) {
    lines.add(
        kj::str("  ", row.first, kj::repeat(' ', width - row.first.size() + 3), row.second, "\n"));
  }
  return kj::strArray(lines, "");
}

kj::String flagTexts(const Command& command) {
  std::vector<std::pair<kj::String, kj::String>> rows;
  for (auto& flag : command.flags) {
    if (flag.hidden) continue;
    auto name = kj::str(flag.letter.size() > 0 ? kj::str("-", flag.letter, ", ") : kj::str("    "),
                        "--", flag.name, placeholder(flag.kind));
    auto text = kj::str(flag.help);
    if (!flag.choices.empty()) text = kj::str(text, " (", kj::strArray(flag.choices, ", "), ")");
    if (flag.required) text = kj::str(text, " (required)");
    if (flag.fallback.size() > 0) text = kj::str(text, " (default ", flag.fallback, ")");
    rows.emplace_back(kj::mv(name), kj::mv(text));
  }
  return pairs(rows);
}

const Command& rootOf(const Command& command) {
  return command.parent == nullptr ? command : rootOf(*command.parent);
}

kj::String usageLine(const Command& command) {
  auto line = kj::str("  ", command.path());
  if (!command.children.empty()) line = kj::str(line, " <command>");
  if (command.arguments.size() > 0) line = kj::str(line, " ", command.arguments);
  return kj::str("Usage:\n", line, " [flags]\n");
}

}  // namespace

kj::String usageText(const Command& command) {
  auto& root = rootOf(command);
  kj::Vector<kj::String> parts;
  parts.add(usageLine(command));
  if (!command.aliases.empty()) {
    parts.add(
        kj::str("\nAliases:\n  ", command.name, ", ", kj::strArray(command.aliases, ", "), "\n"));
  }
  if (!command.children.empty()) {
    std::vector<std::pair<kj::String, kj::String>> rows;
    for (auto& child : command.children) {
      if (!child->hidden) rows.emplace_back(kj::str(child->name), kj::str(child->summary));
    }
    std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.first < b.first; });
    parts.add(kj::str("\nCommands:\n", pairs(rows)));
  }
  for (auto* c = &command; c != &root; c = c->parent) {
    if (c->flags.empty()) continue;
    auto title = c == &command ? kj::str("Flags") : kj::str("Flags of \"", c->path(), "\"");
    parts.add(kj::str("\n", title, ":\n", flagTexts(*c)));
  }
  parts.add(kj::str("\nGlobal flags:\n", flagTexts(root)));
  return kj::strArray(parts, "");
}

kj::String helpText(const Command& command) {
  auto details = command.details.size() > 0 ? kj::str("\n", command.details, "\n") : kj::str();
  return kj::str(command.summary, "\n", details, "\n", usageText(command));
}

}  // namespace talos::talosctl
