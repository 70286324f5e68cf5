"""Programs that start a Jupyter server without the grammar of international addresses, which takes two seconds of each
start (`workbench.interpreter.spare_grammar`)."""

_SPARE = "import sys; from workbench.interpreter import spare_grammar; spare_grammar();"
#: JupyterLab.
LAB = f"{_SPARE} from jupyterlab.labapp import main; sys.exit(main())"
#: A server, which writes its port to the file that is its first argument.
SERVER = (
    f"{_SPARE} from jupyter_server.serverapp import ServerApp; app = ServerApp(); app.initialize(sys.argv[2:]);"
    "open(sys.argv[1], 'w').write(str(app.port)); app.start()"
)
