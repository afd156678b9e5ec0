#include "machined/screen/screen-page.h"

#include <string.h>

#include "common/text/plain-text.h"
#include "machined/config/maintenance-notice.h"
#include "machined/screen/qr-code.h"

namespace talos::machined {

namespace {

constexpr size_t kLabel = 14;

bool isMaintenance(const ScreenFacts& facts) {
  return facts.stage == "maintenance";
}

bool isHealthy(const ScreenFacts& facts) {
  return facts.problems.empty() && facts.servicesUp == facts.services;
}

// Returns the text in characters of the kernel's font; other characters become '?', or '~' for '…'.
kj::String inKernelFont(kj::StringPtr text) {
  kj::Vector<char> out;
  for (auto rest = text.asBytes(); rest.size() > 0;) {
    auto first = firstCharacter(rest);
    bool known = first.valid && first.plain && first.code < 0x7f;
    out.add(known ? char(first.code) : first.valid && first.code == U'…' ? '~' : '?');
    rest = rest.slice(first.bytes, rest.size());
  }
  return kj::heapString(out.begin(), out.size());
}

// Breaks a long text at blanks.
kj::Vector<kj::ArrayPtr<const char>> wrapped(kj::ArrayPtr<const char> rest, size_t width) {
  kj::Vector<kj::ArrayPtr<const char>> rows;
  while (rest.size() > 0) {
    auto end = kj::min(rest.size(), width);
    if (end < rest.size()) {
      auto blank = end;
      while (blank > 0 && rest[blank] != ' ') --blank;
      if (blank > 0) end = blank;
    }
    rows.add(rest.slice(0, end));
    rest = rest.slice(end, rest.size());
    while (rest.size() > 0 && rest[0] == ' ') rest = rest.slice(1, rest.size());
  }
  return rows;
}

// Lines with labels. If their texts need more rows than there are, the longest texts are cut, so
// that every line is on the screen.
class Lines {
 public:
  void add(kj::StringPtr label, kj::StringPtr text, Look look = Look::kPlain) {
    if (text.size() > 0) lines.add(Line{label, inKernelFont(text), look});
  }
  void skip() { lines.add(Line{}); }
  size_t size() const { return lines.size(); }

  void draw(Canvas& canvas, size_t row, size_t end, size_t columns) const {
    auto width = columns - kLabel;
    auto most = end - row;  // rows of one text
    while (most > 1 && rowsWith(most, width) > end - row) --most;
    for (auto& line : lines) {
      canvas.put(row, 1, line.label, Look::kDim, kLabel - 2);
      auto parts = wrapped(line.text, width);
      auto shown = kj::min(parts.size(), most);
      for (auto i : kj::range(size_t(0), shown)) {
        // The last one has all that is left, which the canvas cuts.
        auto until = i + 1 == shown ? line.text.end() : parts[i].end();
        canvas.put(row + i, kLabel, kj::heapString(parts[i].begin(), until - parts[i].begin()),
                   line.look, width);
      }
      row += kj::max(shown, size_t(1));
    }
  }

 private:
  struct Line {
    kj::StringPtr label;
    kj::String text;
    Look look = Look::kPlain;
  };
  kj::Vector<Line> lines;

  size_t rowsWith(size_t most, size_t width) const {
    size_t rows = 0;
    for (auto& line : lines) {
      rows += kj::max(kj::min(wrapped(line.text, width).size(), most), size_t(1));
    }
    return rows;
  }
};

void drawTitle(Canvas& canvas, const ScreenFacts& facts, kj::StringPtr page = ""_kj) {
  auto name = facts.hostname.size() > 0 ? inKernelFont(facts.hostname) : kj::str("(no name yet)");
  canvas.put(0, 1, kj::str(name, page));
  canvas.putRight(0, canvas.columns() - 1, kj::str("Talos ", facts.version));
  canvas.paint(0, 0, canvas.columns(), Look::kSelected);
}

void drawKeys(Canvas& canvas, size_t row, size_t width) {
  constexpr auto kAll =
      "Alt+F1 log of the machine   Alt+F2 overview   Alt+F3 network   Alt+F4 problems"_kj;
  constexpr auto kShort = "Alt+F1 log  F3 network  F4 problems"_kj;  // beside a QR code
  canvas.put(row, 1, kAll.size() < width ? kAll : kShort, Look::kDim, width);
}

// Returns the rows of the page. In maintenance mode it has a QR code of 19 rows, a title above the
// code and the command below it.
size_t pageRows(const ScreenFacts& facts, size_t rows) {
  constexpr size_t kWithCode = 23, kLeastOfKernel = 2;
  auto least =
      isMaintenance(facts) && rows >= kWithCode + kLeastOfKernel ? kWithCode : kLeastScreenRows;
  return kj::max(least, rows * 2 / 3);
}

size_t linePageRows(size_t rows) {
  return kj::max(kLeastScreenRows, rows * 2 / 3);
}

// Returns the rows between a title and the keys.
size_t rowsForLines(size_t rows) {
  return linePageRows(rows) - 4;
}

// Returns the row where the command begins.
size_t drawApplyCommand(Canvas& canvas, const ScreenFacts& facts) {
  auto command = applyCommand(facts.addresses[0], facts.fingerprint);
  auto parts = wrapped(command, canvas.columns() - 2);
  auto top = canvas.rows() - kj::min(canvas.rows(), parts.size() + 1);
  canvas.put(top, 1, "This machine has no config. To give it one, type on another machine:",
             Look::kWarning);
  for (auto i : kj::indices(parts)) {
    canvas.put(top + 1 + i, 1, kj::heapString(parts[i]), Look::kTitle);
  }
  return top;
}

kj::String addressesOf(const ScreenFacts& facts) {
  if (facts.addresses.empty()) return kj::str("none yet; a kernel parameter ip= sets one");
  return kj::strArray(facts.addresses, "  ");
}

void addState(Lines& lines, const ScreenFacts& facts) {
  bool runs = facts.stage == "running", failed = facts.stage == "failed";
  lines.add("stage", facts.stage, failed ? Look::kBad : runs ? Look::kGood : Look::kWarning);
  lines.add("step", facts.progress, Look::kWarning);
  if (facts.services > 0) {
    lines.add("services", kj::str(facts.servicesUp, " of ", facts.services, " healthy"),
              facts.servicesUp == facts.services ? Look::kGood : Look::kWarning);
  }
  lines.add("role", facts.role);
  lines.add("addresses", addressesOf(facts));
  lines.add("shared", facts.shared);
  lines.add("etcd", facts.etcd);
  lines.add("Kubernetes", facts.kubernetes);
  if (facts.revertsAt.size() > 0) {
    lines.add("config", kj::str("on trial, reverted at ", facts.revertsAt), Look::kWarning);
  }
}

void addProblems(Lines& lines, const ScreenFacts& facts) {
  if (facts.problems.empty()) return;
  lines.skip();
  if (isMaintenance(facts)) {
    // The remedy is the command at the bottom of the page.
    lines.add("reason", facts.problems[0], Look::kWarning);
    return;
  }
  lines.add(facts.problems.size() == 1 ? "problem" : "problems", facts.problems[0], Look::kBad);
  lines.add("remedy", remedyOf(facts.problems[0]), Look::kAccent);
  if (facts.problems.size() > 1) {
    lines.add("", kj::str("and ", facts.problems.size() - 1, " more: talosctl status"), Look::kDim);
  }
}

// Returns the text of the QR code: the node's address, and the fingerprint by which a client
// recognises the node.
kj::String codeText(const ScreenFacts& facts) {
  return kj::str(facts.addresses[0], " ", facts.fingerprint);
}

}  // namespace

kj::StringPtr remedyOf(kj::StringPtr problem) {
  struct Remedy {
    const char* part;
    kj::StringPtr text;
  };
  constexpr Remedy kRemedies[] = {
      {"bootstrap", "talosctl bootstrap, on one control-plane node only"_kj},
      {"cannot pull", "talosctl diagnose names the registry and what it answers"_kj},
      {"etcd", "talosctl etcd members, and talosctl logs etcd"_kj},
      {"kubelet", "talosctl logs kubelet"_kj},
      {"config", "talosctl apply-config with a config that is correct"_kj},
  };
  for (auto& one : kRemedies) {
    if (strstr(problem.cStr(), one.part) != nullptr) return one.text;
  }
  return "talosctl diagnose"_kj;
}

Canvas drawMachineScreen(const ScreenFacts& facts, size_t rows, size_t columns) {
  Canvas canvas(pageRows(facts, rows), kj::max(columns, kLeastScreenColumns));
  drawTitle(canvas, facts);
  auto width = canvas.columns() - 1;
  kj::Maybe<QrCode> code;
  if (isMaintenance(facts) && !facts.addresses.empty() && facts.fingerprint.size() > 0) {
    code = qrCodeOf(codeText(facts));
  }
  KJ_IF_MAYBE (it, code) {
    constexpr size_t kText = 36;  // columns that the lines need beside the code
    if (it->rows() + 4 <= canvas.rows() && it->size + kText <= canvas.columns()) {
      width = canvas.columns() - it->size - 2;
      drawQrCode(canvas, 1, width + 1, *it);
    }
  }
  Lines lines;
  auto end = canvas.rows() - 1, keys = end;
  addState(lines, facts);
  addProblems(lines, facts);
  if (isMaintenance(facts)) {
    lines.skip();
    lines.add("fingerprint", facts.fingerprint, Look::kTitle);
    if (!facts.addresses.empty()) {
      end = drawApplyCommand(canvas, facts);
      keys = end - 1;
    }
  } else if (facts.stage == "running" && !facts.addresses.empty()) {
    lines.skip();
    lines.add("reach it", kj::str("talosctl -n ", facts.addresses[0], " dashboard"), Look::kTitle);
  }
  lines.draw(canvas, 2, end - 1, width);
  drawKeys(canvas, keys, width);
  canvas.substitute(U'…', '~');
  return canvas;
}

namespace {

// Returns the canvas of a page with a title and the keys, whose lines are between them.
Canvas drawLines(const ScreenFacts& facts, kj::StringPtr title, const Lines& lines, size_t rows,
                 size_t columns) {
  Canvas canvas(linePageRows(rows), kj::max(columns, kLeastScreenColumns));
  drawTitle(canvas, facts, title);
  auto end = canvas.rows() - 1;
  lines.draw(canvas, 2, end - 1, canvas.columns() - 1);
  drawKeys(canvas, end, canvas.columns() - 1);
  canvas.substitute(U'…', '~');
  return canvas;
}

Look lookOf(const ScreenLink& link) {
  return link.state == "up" ? Look::kGood : link.state == "down" ? Look::kDim : Look::kWarning;
}

kj::String orNone(kj::ArrayPtr<const kj::String> texts) {
  return texts.size() == 0 ? kj::str("none") : kj::strArray(texts, "  ");
}

}  // namespace

Canvas drawNetworkScreen(const ScreenFacts& facts, size_t rows, size_t columns) {
  Lines lines;
  lines.add("gateways", orNone(facts.gateways),
            facts.gateways.empty() ? Look::kWarning : Look::kPlain);
  lines.add("name servers", orNone(facts.nameServers));
  lines.add("time servers", orNone(facts.timeServers));
  if (!facts.networkProblems.empty()) {
    lines.add("not done", kj::strArray(facts.networkProblems, "; "), Look::kBad);
  }
  lines.skip();
  auto room = rowsForLines(rows);
  for (auto i : kj::indices(facts.links)) {
    auto& link = facts.links[i];
    size_t left = facts.links.size() - i, needed = link.addresses.empty() ? 1 : 2;
    if (lines.size() + needed + (left > 1 ? 1 : 0) > room) {
      lines.add("", kj::str("and ", left, " more: talosctl get links"), Look::kDim);
      break;
    }
    lines.add(link.name, kj::str(link.state, "  ", link.hardware), lookOf(link));
    if (!link.addresses.empty()) lines.add("", kj::strArray(link.addresses, "  "));
  }
  return drawLines(facts, ": network", lines, rows, columns);
}

Canvas drawProblemsScreen(const ScreenFacts& facts, size_t rows, size_t columns) {
  Lines lines;
  auto room = rowsForLines(rows);
  for (auto i : kj::indices(facts.problems)) {
    size_t left = facts.problems.size() - i;
    if (lines.size() + 3 > room) {
      lines.add("", kj::str("and ", left, " more: talosctl status"), Look::kDim);
      break;
    }
    lines.add("problem", facts.problems[i], Look::kBad);
    if (!isMaintenance(facts)) lines.add("  remedy", remedyOf(facts.problems[i]), Look::kAccent);
  }
  if (facts.problems.empty()) lines.add("problem", "none that this node knows", Look::kGood);
  return drawLines(facts, ": problems", lines, rows, columns);
}

kj::String stateKey(const ScreenFacts& facts) {
  return kj::str(facts.stage, "\n", facts.hostname, "\n", kj::strArray(facts.addresses, " "), "\n",
                 facts.shared, "\n", isHealthy(facts));
}

kj::String summaryLine(const ScreenFacts& facts) {
  if (facts.stage != "running" || facts.addresses.empty()) return kj::String();
  auto health = isHealthy(facts) ? kj::str(facts.services, " services are healthy")
                : facts.problems.empty()
                    ? kj::str(facts.servicesUp, " of ", facts.services, " services are healthy")
                    : kj::str(facts.problems[0], "; ", remedyOf(facts.problems[0]));
  return kj::str(facts.hostname, " (", kj::strArray(facts.addresses, " "), ") is running: ", health,
                 facts.shared.size() > 0 ? "; shared address " : "", facts.shared);
}

}  // namespace talos::machined
