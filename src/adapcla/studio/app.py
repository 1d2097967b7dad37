import streamlit as st

st.write("hi")
st.html(
    "<style>.x{color:red}</style><div class='x' title='a'>red <svg width=10 height=10></svg><img alt='c' src='data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI0MCIgaGVpZ2h0PSI0MCI+PHJlY3Qgd2lkdGg9IjQwIiBoZWlnaHQ9IjQwIiBmaWxsPSJncmVlbiIvPjwvc3ZnPg=='></div><details><summary>more</summary>x</details>"
)
