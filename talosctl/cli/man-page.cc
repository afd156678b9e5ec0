#include "talosctl/cli/man-page.h"

#include <algorithm>

#include "talosctl/cli/help.h"

namespace talos::talosctl {

namespace {

// Returns a name such as "talosctl-config-merge".
kj::String pageName(const Command& command) {
  auto name = command.path();
  for (char& c : name) c = c == ' ' ? '-' : c;
  return name;
}

// Text for roff: a dash is a dash, and no line begins a request.
kj::String roff(kj::StringPtr text) {
  kj::Vector<char> out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool begins = i == 0 || text[i - 1] == '\n';
    if (begins && text[i] == '\n') {
      out.addAll(".PP"_kj);
    }
    if (begins && (text[i] == '.' || text[i] == '\'')) out.addAll("\\&"_kj);
    if (text[i] == '\\') {
      out.addAll("\\e"_kj);
    } else if (text[i] == '-') {
      out.addAll("\\-"_kj);
    } else {
      out.add(text[i]);
    }
  }
  return kj::heapString(out.asPtr());
}

kj::String optionsOf(const Command& command, const Command& user, kj::StringPtr heading) {
  auto texts = flagTextsOf(command, user);
  if (texts.empty()) return kj::str();
  kj::Vector<kj::String> lines;
  lines.add(kj::str(".SH ", heading, "\n"));
  for (auto& flag : texts) {
    auto name = kj::str(flag.name);
    size_t begin = 0;
    while (begin < name.size() && name[begin] == ' ') ++begin;
    lines.add(kj::str(".TP\n.B ", roff(name.slice(begin)), "\n", roff(flag.text), "\n"));
  }
  return kj::strArray(lines, "");
}

kj::String commandsOf(const Command& command) {
  std::vector<const Command*> shown;
  for (auto& child : command.children) {
    if (!child->hidden) shown.push_back(child.get());
  }
  if (shown.empty()) return kj::str();
  std::sort(shown.begin(), shown.end(), [](auto* a, auto* b) { return a->name < b->name; });
  kj::Vector<kj::String> lines;
  lines.add(kj::str(".SH COMMANDS\n"));
  for (auto* child : shown) {
    lines.add(kj::str(".TP\n.BR ", roff(pageName(*child)), " (1)\n", roff(child->summary), "\n"));
  }
  return kj::strArray(lines, "");
}

// Lines for a shell, each as it is typed.
kj::String examplesOf(const Command& command) {
  if (command.examples.size() == 0) return kj::str();
  auto lines = roff(command.examples);
  return kj::str(".SH EXAMPLES\n.nf\n", lines, "\n.fi\n");
}

kj::String synopsisOf(const Command& command) {
  auto line = kj::str(".B ", roff(command.path()), "\n");
  if (!command.children.empty()) return kj::str(line, "\\fIcommand\\fR [\\fIflags\\fR]\n");
  auto arguments = command.arguments.size() > 0 ? kj::str(roff(command.arguments), " ") : kj::str();
  return kj::str(line, arguments, "[\\fIflags\\fR]\n");
}

kj::StringPtr exitStatusOf(const Command& command) {
  switch (command.interrupt) {
    case Interrupt::kIsFailure:
      return "0 on success, 1 on any error, 130 when interrupted";
    case Interrupt::kIsSuccess:
      return "0 on success and when interrupted, 1 on any error";
    case Interrupt::kIsCommands:
      break;
  }
  return "0 on success, 1 on any error";
}

ManPage pageOf(const Command& command, const Command& root, kj::StringPtr version) {
  auto name = pageName(command);
  auto title = kj::str(name);
  for (char& c : title) c = 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  kj::Vector<kj::String> parts;
  parts.add(kj::str(".TH ", roff(title), " 1 \"\" \"talosctl ", roff(version), "\" \"Talos\"\n"));
  parts.add(kj::str(".SH NAME\n", roff(name), " \\- ", roff(command.summary), "\n"));
  parts.add(kj::str(".SH SYNOPSIS\n", synopsisOf(command)));
  parts.add(kj::str(".SH DESCRIPTION\n", roff(command.summary), ".\n"));
  if (command.details.size() > 0) parts.add(kj::str(".PP\n", roff(command.details), "\n"));
  if (!command.aliases.empty()) {
    parts.add(kj::str(".PP\nAlso called ", roff(kj::strArray(command.aliases, ", ")), ".\n"));
  }
  parts.add(examplesOf(command));
  parts.add(commandsOf(command));
  if (&command != &root) parts.add(optionsOf(command, command, "OPTIONS"));
  parts.add(optionsOf(root, command, "GLOBAL OPTIONS"));
  parts.add(kj::str(".SH EXIT STATUS\n", exitStatusOf(command), ".\n"));
  if (command.parent != nullptr) {
    parts.add(kj::str(".SH SEE ALSO\n.BR ", roff(pageName(*command.parent)), " (1)\n"));
  }
  return {kj::str(name, ".1"), kj::strArray(parts, "")};
}

void addPages(const Command& command, const Command& root, kj::StringPtr version,
              kj::Vector<ManPage>& pages) {
  if (command.hidden) return;
  pages.add(pageOf(command, root, version));
  for (auto& child : command.children) addPages(*child, root, version, pages);
}

}  // namespace

kj::Vector<ManPage> manPages(const Command& root, kj::StringPtr version) {
  kj::Vector<ManPage> pages;
  addPages(root, root, version, pages);
  return pages;
}

}  // namespace talos::talosctl
