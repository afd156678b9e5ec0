#include "talosctl/health/health-lines.h"

#include "common/kube/json.h"
#include "common/screen/look.h"
#include "common/yaml/yaml-codec.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {
namespace {

constexpr auto kTurnTime = 200 * kj::MILLISECONDS;

Look lookOf(const CheckResult& result) {
  switch (result.state) {
    case CheckState::kPassed:
      return Look::kGood;
    case CheckState::kSkipped:
      return Look::kAccent;
    case CheckState::kWaiting:
      return result.text.size() == 0 ? Look::kWarning : Look::kBad;
  }
  return Look::kPlain;
}

kj::StringPtr resultOf(const CheckResult& result) {
  switch (result.state) {
    case CheckState::kPassed:
      return "ok";
    case CheckState::kSkipped:
      return "skipped";
    case CheckState::kWaiting:
      return "failed";
  }
  return "";
}

}  // namespace

void HealthLines::discovered(const ClusterNodes& nodes) {
  console.err(printable(discoveredLine(nodes)));
  console.err("\n"_kj);
}

void HealthLines::begin(kj::StringPtr name) {
  check = kj::str(name);
  last = CheckResult::waiting(kj::String());
  begun = timer.now();
  turns = 0;
  open = true;
  draw();
}

void HealthLines::state(const CheckResult& result) {
  if (result.state == last.state && result.text == last.text) return;
  last = {result.state, kj::str(result.text)};
  draw();
}

void HealthLines::end() {
  open = false;
  if (console.drawsOnErr()) console.err("\n"_kj);
  if (results == Results::kNone) return;
  if (results == Results::kYaml) {
    console.out(kj::str("---\ncheck: ", codec::yamlScalar(check), "\nresult: ", resultOf(last),
                        "\nmessage: ", codec::yamlScalar(last.text),
                        "\nseconds: ", (timer.now() - begun) / kj::SECONDS, "\n"));
    return;
  }
  kube::Json line{{"check", check.cStr()},
                  {"result", resultOf(last).cStr()},
                  {"message", last.text.cStr()},
                  {"seconds", (timer.now() - begun) / kj::SECONDS}};
  console.out(kj::str(kube::writeJson(line), "\n"));
}

void HealthLines::note(kj::StringPtr text) {
  bool rewritten = open && console.drawsOnErr();
  DrawnText line;
  if (rewritten) line.toLineStart().clearToLineEnd();
  console.err(line.add(printable(text)).add("\n"_kj));
  if (rewritten) draw();
}

void HealthLines::draw() {
  auto before = kj::str("waiting for ", check, ": ");
  auto line = printable(kj::str(before, resultText(last)));
  if (!console.drawsOnErr()) {
    console.err(kj::str(line, "\n"));
    return;
  }
  // A line that wraps could not be rewritten.
  auto text = firstCharacters(line, kj::max(console.columns(), 3u) - 3);
  auto split = kj::min(before.size(), text.size());
  auto sign = last.state == CheckState::kWaiting ? turningSign(turns) : " "_kj;
  DrawnText drawn;
  drawn.toLineStart().add(sign).add(" "_kj).add(text.slice(0, split));
  console.err(drawn.add(text.slice(split, text.size()), lookOf(last)).clearToLineEnd());
}

kj::Promise<void> HealthLines::turn() {
  if (!console.drawsOnErr()) co_await kj::Promise<void>(kj::NEVER_DONE);
  for (;;) {
    co_await timer.afterDelay(kTurnTime);
    ++turns;
    if (open) draw();
  }
}

}  // namespace talos::talosctl
