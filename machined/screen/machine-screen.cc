#include "machined/screen/machine-screen.h"

#include "common/base/error.h"
#include "machined/screen/screen-page.h"

namespace talos::machined {

void MachineScreen::open(kj::UnixEventPort& port, bool activate) {
  terminal = VirtualTerminal::open();
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
  KJ_IF_MAYBE (it, terminal) {
    (*it)->show(drawMachineScreen(facts, (*it)->rows(), (*it)->columns()));
    // The page has content now.
    if (activates) (*it)->activate();
    activates = false;
  }
  auto state = stateKey(facts);
  if (state == lastState) return;
  lastState = kj::mv(state);
  auto line = summaryLine(facts);
  if (line.size() > 0) say(line);
}

}  // namespace talos::machined
