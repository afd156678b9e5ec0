#include "machined/screen/machine-screen.h"

#include "machined/screen/screen-page.h"

namespace talos::machined {

void MachineScreen::open(bool activate) {
  terminal = VirtualTerminal::open();
  activates = activate;
}

void MachineScreen::show(ScreenFacts facts) {
  KJ_IF_MAYBE (it, terminal) {
    (*it)->show(drawMachineScreen(facts, (*it)->rows(), (*it)->columns()));
    // There is something to see now.
    if (activates) (*it)->activate();
    activates = false;
  }
  auto state = stateKey(facts);
  if (state == said) return;
  said = kj::mv(state);
  auto line = summaryLine(facts);
  if (line.size() > 0) say(line);
}

}  // namespace talos::machined
