#include <unistd.h>

#include "binding.h"

namespace quern::python {

void wait_for_the_end() {
  for (;;) pause();
}

ReleasedGil::~ReleasedGil() {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {  // no exception: the thread is unwound
    wait_for_the_end();
  }
}

TakenGil::TakenGil() {
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {
    wait_for_the_end();
  }
}

}  // namespace quern::python
