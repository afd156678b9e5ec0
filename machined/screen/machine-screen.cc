#include "machined/screen/machine-screen.h"

#include "common/base/error.h"
#include "machined/screen/screen-page.h"

namespace talos::machined {

void MachineScreen::open(kj::UnixEventPort& port, bool activate) {
  constexpr const char* kTerminals[] = {"/dev/tty2", "/dev/tty3", "/dev/tty4"};
  Page* const kPages[] = {drawMachineScreen, drawNetworkScreen, drawProblemsScreen};
  for (auto i : kj::indices(kPages)) {
    auto opened = VirtualTerminal::open(kTerminals[i]);
    KJ_IF_MAYBE (terminal, opened) pages.add(Shown{kj::mv(*terminal), *kPages[i]});
  }
  activates = activate;
  auto first = VirtualTerminal::open("/dev/tty1");
  auto shown = shownTerminal(port);
  KJ_IF_MAYBE (t, first) {
    KJ_IF_MAYBE (s, shown) {
      auto openLog = [&port]() { return openKmsg(port); };
      followingLog =
          log.emplace(kj::mv(*t), kj::mv(*s), kj::mv(openLog))
              .run()
              .eagerlyEvaluate([this](kj::Exception&& e) {
                say(kj::str("cannot show the log on the first terminal: ", messageOf(e)));
              });
    }
  }
}

void MachineScreen::show(ScreenFacts facts) {
  for (auto& one : pages) {
    one.terminal->show(one.page(facts, one.terminal->rows(), one.terminal->columns()));
  }
  // The first page has content now.
  if (activates && !pages.empty()) pages[0].terminal->activate();
  activates = false;
  auto state = stateKey(facts);
  if (state == lastState) return;
  lastState = kj::mv(state);
  auto line = summaryLine(facts);
  if (line.size() > 0) say(line);
}

}  // namespace talos::machined
