#include "machined/screen/screen-page.h"

#include <string.h>

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

// Breaks a long text at blanks.
size_t putWrapped(Canvas& canvas, size_t row, size_t column, size_t width, kj::StringPtr text,
                  Look look) {
  auto rest = text.asArray();
  while (rest.size() > 0) {
    auto end = kj::min(rest.size(), width);
    if (end < rest.size()) {
      auto blank = end;
      while (blank > 0 && rest[blank] != ' ') --blank;
      if (blank > 0) end = blank;
    }
    canvas.put(row++, column, kj::heapString(rest.slice(0, end)), look, width);
    rest = rest.slice(end, rest.size());
    while (rest.size() > 0 && rest[0] == ' ') rest = rest.slice(1, rest.size());
  }
  return row;
}

class Lines {
 public:
  Lines(Canvas& canvas, size_t row, size_t columns) : canvas(canvas), at(row), columns(columns) {}

  void add(kj::StringPtr label, kj::StringPtr text, Look look = Look::kPlain) {
    if (text.size() == 0) return;
    canvas.put(at, 1, label, Look::kDim, kLabel - 2);
    at = putWrapped(canvas, at, kLabel, columns - kLabel, text, look);
  }
  void skip() { ++at; }
  size_t row() const { return at; }

 private:
  Canvas& canvas;
  size_t at, columns;
};

void drawTitle(Canvas& canvas, const ScreenFacts& facts) {
  canvas.put(0, 1, facts.hostname.size() > 0 ? facts.hostname.asPtr() : "(no name yet)"_kj);
  canvas.putRight(0, canvas.columns() - 1, kj::str("Talos ", facts.version));
  canvas.paint(0, 0, canvas.columns(), Look::kSelected);
}

void drawKeys(Canvas& canvas) {
  canvas.put(canvas.rows() - 1, 1, "Alt+F1 log of the machine   Alt+F2 this page", Look::kDim);
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
    // The remedy is the command below.
    lines.add("reason", facts.problems[0], Look::kWarning);
    return;
  }
  lines.add(facts.problems.size() == 1 ? "problem" : "problems", facts.problems[0], Look::kBad);
  lines.add("remedy", remedyOf(facts.problems[0]), Look::kAccent);
  if (facts.problems.size() > 1) {
    lines.add("", kj::str("and ", facts.problems.size() - 1, " more: talosctl status"), Look::kDim);
  }
}

// Where the node is, and how a client knows that it is the one.
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
  Canvas canvas(kj::max(rows, kLeastScreenRows), kj::max(columns, kLeastScreenColumns));
  drawTitle(canvas, facts);
  auto width = canvas.columns() - 1;
  kj::Maybe<QrCode> code;
  if (isMaintenance(facts) && !facts.addresses.empty() && facts.fingerprint.size() > 0) {
    code = qrCodeOf(codeText(facts));
  }
  KJ_IF_MAYBE (it, code) {
    constexpr size_t kText = 36;  // columns that the lines need beside it
    if (it->rows() + 6 <= canvas.rows() && it->size + kText <= canvas.columns()) {
      width = canvas.columns() - it->size - 2;
      drawQrCode(canvas, 1, width + 1, *it);
    }
  }
  Lines lines(canvas, 2, width);
  addState(lines, facts);
  addProblems(lines, facts);
  if (isMaintenance(facts)) {
    lines.skip();
    lines.add("fingerprint", facts.fingerprint, Look::kTitle);
    if (!facts.addresses.empty()) {
      auto row = kj::max(lines.row() + 1, canvas.rows() - 5);
      canvas.put(row++, 1, "This machine has no config. To give it one, type on another machine:",
                 Look::kWarning);
      putWrapped(canvas, row, 1, canvas.columns() - 2,
                 applyCommand(facts.addresses[0], facts.fingerprint), Look::kTitle);
    }
  } else if (facts.stage == "running" && !facts.addresses.empty()) {
    lines.skip();
    lines.add("reach it", kj::str("talosctl -n ", facts.addresses[0], " dashboard"), Look::kTitle);
  }
  drawKeys(canvas);
  canvas.substitute(U'…', '~');
  return canvas;
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
