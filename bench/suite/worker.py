"""The loop of a peer that is a Python process: a line of JSON a request, a line an answer.

    {"load": operation, "sizes": {}, "inputs": {name: file}, "output": file}  ->  {"ok": true} or {"skip": why}
    {"time": seconds}  ->  {"best": s, "median": s, "runs": n}
"""

import json
import statistics
import sys
import time


def times_of(function, seconds):
    times = []
    clock = time.perf_counter
    end = clock() + seconds
    while True:
        start = clock()
        function()
        stop = clock()
        times.append(stop - start)
        if stop >= end and (len(times) >= 3 or stop >= end + 2):
            return {"best": min(times), "median": statistics.median(times), "runs": len(times)}


def serve(load):
    """`load(operation, sizes, input files)` gives the function to time and one that gives the result as a NumPy array; or a third, a
    function that times in its own way. Raises NotImplementedError where the peer has nothing for it."""
    import numpy as np

    answers = sys.stdout
    sys.stdout = sys.stderr
    timer = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "load" in request:
                timer = None
                function, result, *own = load(request["load"], request["sizes"], request["inputs"])
                timer = own[0] if own else lambda seconds, function=function: times_of(function, seconds)
                function()
                np.save(request["output"], result())
                answer = {"ok": True}
            else:
                answer = timer(request["time"])
        except NotImplementedError as error:
            answer = {"skip": str(error) or "nothing for it"}
        except Exception as error:  # told to the user, who sees which peer could not do what
            answer = {"skip": f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
